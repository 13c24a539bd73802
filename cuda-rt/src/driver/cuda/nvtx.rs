//! NVTX ranges, by which NVIDIA's profilers show what the host calls its stages.
//!
//! The library (`libnvToolsExt`) is loaded at run time; without it, or without a profiler, a range does nothing.

use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;
use std::sync::OnceLock;

use cudarc::nvtx::sys;

struct Nvtx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

const _: unsafe fn(*const c_char) -> c_int = sys::nvtxRangePushA;
const _: unsafe fn() -> c_int = sys::nvtxRangePop;

/// The library, if it is there.
fn nvtx() -> Option<&'static Nvtx> {
    static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
    NVTX.get_or_init(|| {
        // SAFETY: loading the library runs its initialisers, which set up its own state only.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        // SAFETY: as above; the library is there, so that this doesn't panic, and is never unloaded.
        let library = unsafe { sys::culib() };
        // SAFETY: the type is that of cudarc's bindings, checked above by the compiler.
        let push = unsafe { library.get::<unsafe extern "C" fn(*const c_char) -> c_int>("nvtxRangePushA") };
        // SAFETY: as above.
        let pop = unsafe { library.get::<unsafe extern "C" fn() -> c_int>("nvtxRangePop") };
        Some(Nvtx {
            push: *push.ok()?,
            pop: *pop.ok()?,
        })
    })
    .as_ref()
}

/// A range of the calling thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct NvtxRange {
    /// It ends on the thread on which it began.
    not_send: PhantomData<*const ()>,
}

impl NvtxRange {
    /// Begins a range (`nvtxRangePushA`); `None` without the library.
    pub(crate) fn push(name: &str) -> Option<Self> {
        let nvtx = nvtx()?;
        // A name ends at its first 0, as C has it.
        let name = CString::new(name.split('\0').next().unwrap_or("")).ok()?;
        // SAFETY: the pointer is to a string that ends in 0, which the call copies.
        unsafe { (nvtx.push)(name.as_ptr()) };
        Some(Self {
            not_send: PhantomData,
        })
    }
}

impl Drop for NvtxRange {
    fn drop(&mut self) {
        if let Some(nvtx) = nvtx() {
            // SAFETY: takes no arguments; a range without its like is ignored.
            unsafe { (nvtx.pop)() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_begin_and_end_with_or_without_the_library() {
        let outer = NvtxRange::push("outer");
        let inner = NvtxRange::push("in\0ner");
        assert_eq!(outer.is_some(), nvtx().is_some());
        assert_eq!(inner.is_some(), nvtx().is_some());
        if outer.is_none() {
            eprintln!("SKIPPED: libnvToolsExt is not there");
        }
    }
}
