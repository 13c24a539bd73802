//! Marks in the PTX where a kernel opens shared memory. With them, `kernel-build` proves that all
//! threads of a block open the same memory.
//!
//! If all threads run block-level code alike, the types keep a thread from reading an element that
//! another thread writes between the same two barriers. LLVM may break the condition: it may
//! compute a value in two ways, and give the results to different threads. (The bits of a NaN are
//! not one value.) Therefore each way to open shared memory leaves a mark, with the address and the
//! length. A mark is a `mov` to a register that nothing reads; `ptxas` removes it.
//! `docs/soundness.md`, obligation 10, says why the marks are enough.

/// A mark for each way to open shared memory. Their texts differ, so that LLVM cannot merge two
/// marks.
macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $register:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<T>(ptr: *const T, len: usize) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the instructions write only a register that they declare. LLVM assumes that
            // they touch memory, so it keeps them between their barriers.
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
    /// Each thread writes the elements whose index equals its own, modulo the block's size.
    write = "cuda_rt_same_write";
    /// The first lane of each warp writes the element of its warp.
    per_warp = "cuda_rt_same_per_warp";
    /// Each thread may read and write the element at its own index.
    each_mut = "cuda_rt_same_each_mut";
    /// All threads may read.
    view = "cuda_rt_same_view";
    /// All threads may change elements atomically.
    atomic = "cuda_rt_same_atomic";
    /// Elements below `len` are opened as by [`each_mut`], the others as by [`view`].
    split = "cuda_rt_same_split";
    /// All threads read one element.
    broadcast = "cuda_rt_same_broadcast";
    /// One lane of each warp writes the element of its warp. After a barrier, all threads read.
    scratch = "cuda_rt_same_scratch";
}
