//! Whose accesses an atomic operation excludes: scopes, and the memory that goes with them.

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

/// A scope, and a kind of memory.
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

/// Orders the atomic operations of one thread on different elements: whoever sees what was done
/// after the fence, and has a fence after that, sees what was done before it.
///
/// Release and acquire in one (`fence.acq_rel`). Kernels order nothing else by it: what is not
/// atomic belongs to one thread, or is ordered by a barrier. The operations themselves are relaxed;
/// rustc's `Ordering::AcqRel` would make no fence (rust-lang/rust#136480).
pub mod fence {
    macro_rules! fences {
        ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => { $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name() {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: orders memory accesses, and makes none.
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
