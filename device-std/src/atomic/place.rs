//! Scopes: the threads among which an operation is atomic, and the memory on which it works.

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::BlockScope {}
    impl Sealed for super::DeviceScope {}
    impl Sealed for super::SystemScope {}
    impl Sealed for super::InBlock {}
}

/// The threads among which operations on device memory are atomic.
pub trait Scope: Place {}

/// Among the threads of one block (`.cta`).
#[derive(Debug)]
pub enum BlockScope {}
/// Among the threads of the GPU (`.gpu`).
#[derive(Debug)]
pub enum DeviceScope {}
/// Among all GPUs and the host (`.sys`).
#[derive(Debug)]
pub enum SystemScope {}
/// In shared memory, which only one block reaches.
#[derive(Debug)]
pub(crate) enum InBlock {}

#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Block,
    Device,
    System,
    Shared,
}

/// A scope and a kind of memory.
#[doc(hidden)]
pub trait Place: sealed::Sealed + 'static {
    const KIND: Kind;
}

macro_rules! places {
    ($($place:ident = $kind:ident;)*) => { $(
        impl Place for $place {
            const KIND: Kind = Kind::$kind;
        }
    )* };
}
places! {
    BlockScope = Block;
    DeviceScope = Device;
    SystemScope = System;
    InBlock = Shared;
}
impl Scope for BlockScope {}
impl Scope for DeviceScope {}
impl Scope for SystemScope {}

/// Orders the atomic operations of one thread on different elements. If a thread sees an operation
/// made after the fence, and then executes a fence itself, it also sees the operations made before
/// the first fence.
///
/// A fence is both release and acquire (`fence.acq_rel`). Kernels need it for atomic elements only:
/// other elements belong to one thread, or a barrier orders them. The operations themselves are
/// relaxed; rustc compiles `Ordering::AcqRel` without a fence (rust-lang/rust#136480).
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::fence;
///
/// fn publish(i: Index1, values: Atomic<u32>, flags: Atomic<u32>) {
///     values.store(&i, i.get(), 7);
///     fence::device();
///     flags.store(&i, i.get(), 1);
/// }
///
/// /// Where both threads are of one block, and where the host reads the flag.
/// fn publish_near_and_far(i: Index1, values: Atomic<u32>, flags: Atomic<u32>) {
///     values.store(&i, i.get(), 7);
///     fence::block();
///     flags.store(&i, 0, 1);
///     fence::system();
///     flags.store(&i, 1, 1);
/// }
/// ```
pub mod fence {
    macro_rules! fences {
        ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => { $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name() {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: the instruction orders memory accesses, and touches no memory itself.
                unsafe {
                    core::arch::asm!($instruction, options(nostack));
                }
                #[cfg(not(target_arch = "nvptx64"))]
                core::sync::atomic::fence(core::sync::atomic::Ordering::AcqRel);
            }
        )* };
    }
    fences! {
        /// Among the threads of the block (`fence.acq_rel.cta`).
        block = "fence.acq_rel.cta;";
        /// Among the threads of the GPU (`fence.acq_rel.gpu`).
        device = "fence.acq_rel.gpu;";
        /// Among all GPUs and the host (`fence.acq_rel.sys`).
        system = "fence.acq_rel.sys;";
    }
}
