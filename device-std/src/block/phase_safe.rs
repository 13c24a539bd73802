#[cfg(target_arch = "nvptx64")]
pub use super::phase_safe_auto::PhaseSafe;

/// A type that the closure of a phase may capture: through it, no value that differs by thread can
/// reach block-level code.
///
/// On the device this is an auto trait; cells and `&mut` do not implement it. A stable compiler
/// cannot declare auto traits, so the host asks for `Sync` instead. `Sync` accepts a few types that
/// the kernel build then refuses (an atomic, a mutex).
///
/// Without the bound this program would compile, and its threads would diverge at a barrier:
///
/// ```compile_fail,E0277
/// # use device_std::Block;
/// fn diverge(mut block: Block) {
///     let mine = std::cell::Cell::new(0);
///     block.threads(|t| mine.set(t.index()));
///     if mine.get() == 3 {
///         block.threads(|_| ());
///     }
/// }
/// ```
#[cfg(not(target_arch = "nvptx64"))]
#[diagnostic::on_unimplemented(
    message = "this closure would carry a thread's value out of its phase",
    label = "captures the block, a cell or something else that is not `Sync`",
    note = "H32: block-level code must run alike in all threads, or they diverge at a barrier: return the value (`map`) or keep it in a `Private`"
)]
pub trait PhaseSafe: Sync {}

#[cfg(not(target_arch = "nvptx64"))]
#[diagnostic::do_not_recommend]
impl<T: Sync + ?Sized> PhaseSafe for T {}
