//! Where shared memory is opened: marks in the PTX, by which `kernel-build` proves that all threads
//! of a block open the same.
//!
//! The types see to it that no thread reads what another writes between two barriers, if all
//! threads run block-level code alike. LLVM may break this: it may compute a value in two ways, and
//! give them to different threads (the bits of a NaN have no one value). So each way to open shared
//! memory leaves a mark with the address, and the length where it is not the type's. A mark is a
//! `mov` to a register that nothing reads: `ptxas` leaves it out. `docs/soundness.md`, obligation
//! 10, says why the marks are enough.

/// A mark for each way to open shared memory. They have different texts, so that LLVM can't make
/// one of two.
macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $register:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<T>(ptr: *const T, len: usize) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: writes to a register of its own. It may touch memory as far as LLVM knows, so
            // it stays between the barriers where it is.
            unsafe {
                core::arch::asm!(
                    concat!("{{ .reg .b64 ", $register, "; mov.b64 ", $register, ", {0}; mov.b64 ", $register, ", {1}; }}"),
                    in(reg64) ptr,
                    in(reg64) len,
                    options(nostack)
                );
            }
            #[cfg(not(target_arch = "nvptx64"))]
            let _ = (ptr, len);
        }
    )* };
}

marks! {
    /// Each thread writes elements at its own index, and at those a multiple of the block's size
    /// beyond it.
    write = "cuda_rt_same_write";
    /// The first lane of each warp writes the element of its warp.
    per_warp = "cuda_rt_same_per_warp";
    /// Each thread may read and write the element at its own index.
    each_mut = "cuda_rt_same_each_mut";
    /// All threads may read.
    view = "cuda_rt_same_view";
    /// All threads may change elements atomically.
    atomic = "cuda_rt_same_atomic";
    /// Elements below `len` are opened as by [`each_mut`], the rest as by [`view`].
    split = "cuda_rt_same_split";
    /// All threads read one element.
    broadcast = "cuda_rt_same_broadcast";
    /// One lane of each warp writes the element of its warp; behind a barrier all threads read.
    scratch = "cuda_rt_same_scratch";
}
