//! Atomic operations of relaxed order: on device memory through [`Atomic`], and on shared memory
//! through [`SharedAtomic`](crate::SharedAtomic).

mod element;
mod place;
mod token;

use core::marker::PhantomData;

pub use element::{AtomicElement, AtomicInteger};
pub(crate) use place::InBlock;
use place::Place;
pub use place::{BlockScope, DeviceScope, Scope, SystemScope, fence};
pub use token::ThreadToken;

/// An output that every thread may change by relaxed atomic read-modify-writes (`atom.relaxed.gpu`,
/// wrapping on overflow).
///
/// All operations are relaxed. rustc compiles `fetch_add` with any other order to a relaxed
/// instruction without a fence (rust-lang/rust#136480), so a stronger order would be a false
/// promise. A relaxed operation orders only operations on the same element. [`fence`] orders
/// operations on different elements. A launch comes after all operations of the launch before it.
///
/// Every operation takes the calling thread's index or [`Lane`](crate::Lane). Its result differs by
/// thread, and must not reach block-level code, which decides about barriers.
///
/// A thread that waits for the write of another thread may wait for ever: CUDA does not promise
/// that both threads run at the same time. On the simulated device, blocks run one after the other.
///
/// ```
/// # use device_std::prelude::*;
/// fn count_large(i: Index1, input: &[f32], count: Atomic<u32>) {
///     if input.get(i.get()).is_some_and(|value| *value > 1.0) {
///         count.fetch_add(&i, 0, 1);
///     }
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (threads that write one element race, or diverge at a barrier because
/// of a value that differs).
///
/// # Invariants
/// - ATOMIC-1. `ptr` is valid for reads and writes of `len` elements, aligned to their size, and
///   only this launch uses them.
/// - ATOMIC-2. All access is atomic, at a scope that includes every thread with access.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// A histogram of four bins, its extremes, and bits of what was seen.
/// #[kernel]
/// fn summarize(i: Index1, input: &[u32], bins: Atomic<u32>, summary: Atomic<u32>) {
///     let Some(&value) = input.get(i.get()) else { return };
///     bins.fetch_add(&i, value as usize % bins.len(), 1);
///     summary.fetch_min(&i, 0, value);
///     summary.fetch_max(&i, 1, value);
///     summary.fetch_or(&i, 2, 1 << value);
///     summary.fetch_and(&i, 3, !(1 << value));
///     summary.fetch_xor(&i, 4, value);
///     summary.swap(&i, 5, value); // the last thread's, whichever this is
///     summary.store(&i, 6, 1);
///     // Any other operation: repeated until no other thread came between.
///     let mut seen = summary.load(&i, 7);
///     while let Err(other) = summary.compare_exchange(&i, 7, seen, seen * 2) {
///         seen = other;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&[3_u32, 1, 6, 1, 9])?;
/// let mut bins = compute.alloc_zeroed::<u32>(4)?;
/// let mut summary = compute.alloc_from_slice(&[u32::MAX, 0, 0, u32::MAX, 0, 0, 0, 1])?;
/// summarize(&compute, cuda_rt::Grid1::covering(5), &input, &mut bins, &mut summary)?;
/// assert_eq!(compute.copy_to_vec(&bins)?, [0, 3, 1, 1]);
/// let summary = compute.copy_to_vec(&summary)?;
/// assert_eq!(summary[..5], [1, 9, 0b10_0100_1010, !0b10_0100_1010, 3 ^ 6 ^ 9]);
/// assert_eq!((summary[6], summary[7]), (1, 32));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct Atomic<'a, T> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

/// An [`Atomic`] output at another scope.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel(block = 64)]
/// fn count(mut block: Block, counts: Atomic<u32>) {
///     let own = block.x();
///     // SAFETY: each block uses the element of its own number only.
///     let counts = unsafe { counts.block() };
///     block.threads(|thread| {
///         counts.fetch_add(thread, own, 1); // atomic among the threads of the block
///     });
/// }
///
/// #[kernel]
/// fn stamp(i: Index1, last: Atomic<u32>) {
///     // SAFETY: the launch below passes memory of this GPU.
///     let last = unsafe { last.system() };
///     last.store(&i, 0, 7); // atomic among all GPUs and the host
///     assert_eq!(last.load(&i, 0), 7);
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut counts = compute.alloc_zeroed::<u32>(3)?;
/// count(&compute, cuda_rt::Grid1::blocks(2), &mut counts)?;
/// stamp(&compute, cuda_rt::Grid1::covering(5), &mut counts[2..])?;
/// assert_eq!(compute.copy_to_vec(&counts)?, [64, 64, 7]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct AtomicAt<'a, T, S> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<(&'a mut [T], S)>,
}

// SAFETY: ATOMIC-2: all access is atomic.
unsafe impl<T: AtomicElement> Sync for Atomic<'_, T> {}
// SAFETY: ATOMIC-2: all access is atomic.
unsafe impl<T: AtomicElement, S: Scope> Sync for AtomicAt<'_, T, S> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: each operation needs a thread's token, which block-level code never has.
unsafe impl<T: AtomicElement> crate::PhaseSafe for Atomic<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: each operation needs a thread's token, which block-level code never has.
unsafe impl<T: AtomicElement, S: Scope> crate::PhaseSafe for AtomicAt<'_, T, S> {}

#[inline(always)]
pub(crate) fn element<T>(ptr: *mut T, len: usize, at: usize) -> *mut T {
    assert!(at < len, "an atomic element lies beyond the end");
    ptr.wrapping_add(at)
}

/// The operations on the elements at `self.ptr`. The calling thread shows its `$token`.
macro_rules! operations {
    ([$($generics:tt)*] $type:ty, $place:ty, [$($token_generics:tt)*] $token:ty) => {
        impl<$($generics)*> $type {
            /// Adds `value` to element `at`, and returns the element's previous value.
            ///
            /// # Panics
            /// If `at` lies beyond the end.
            #[inline(always)]
            pub fn fetch_add<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
                // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is
                // atomic.
                unsafe { T::fetch_add::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }

            /// Writes `value` into element `at`, and returns the element's previous value.
            ///
            /// # Panics
            /// If `at` lies beyond the end.
            #[inline(always)]
            pub fn swap<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
                // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is
                // atomic.
                unsafe { T::swap::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }

            /// Reads element `at`.
            ///
            /// # Panics
            /// If `at` lies beyond the end.
            #[inline(always)]
            pub fn load<$($token_generics)*>(&self, _thread: &$token, at: usize) -> T {
                // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is
                // atomic.
                unsafe { T::load::<$place>($crate::atomic::element(self.ptr, self.len, at)) }
            }

            /// Writes `value` into element `at`.
            ///
            /// # Panics
            /// If `at` lies beyond the end.
            #[inline(always)]
            pub fn store<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) {
                // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is
                // atomic.
                unsafe { T::store::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }
        }

        impl<$($generics)*> $type
        where
            T: $crate::AtomicInteger,
        {
            $crate::atomic::operations! { @integer $place, [$($token_generics)*] $token,
                /// Raises element `at` to at least `value`, and returns the element's previous
                /// value.
                fetch_max
                /// Lowers element `at` to at most `value`, and returns the element's previous
                /// value.
                fetch_min
                /// Clears the bits of element `at` that `value` lacks, and returns the element's
                /// previous value.
                fetch_and
                /// Sets the bits of element `at` that `value` has, and returns the element's
                /// previous value.
                fetch_or
                /// Flips the bits of element `at` that `value` has, and returns the element's
                /// previous value.
                fetch_xor
            }

            /// Writes `new` into element `at` if its value is `current`. Returns the previous
            /// value: in `Ok` if it was `current`, in `Err` if not.
            ///
            /// # Errors
            /// The element's value, if it was not `current`. The operation never fails for another
            /// reason.
            ///
            /// # Panics
            /// If `at` lies beyond the end.
            #[inline(always)]
            pub fn compare_exchange<$($token_generics)*>(
                &self,
                _thread: &$token,
                at: usize,
                current: T,
                new: T,
            ) -> Result<T, T>
            where
                T: PartialEq,
            {
                let element = $crate::atomic::element(self.ptr, self.len, at);
                // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is
                // atomic.
                let old = unsafe { T::compare_exchange::<$place>(element, current, new) };
                if old == current { Ok(old) } else { Err(old) }
            }
        }
    };
    (@integer $place:ty, $token_generics:tt $token:ty, $($(#[$doc:meta])* $name:ident)*) => { $(
        $crate::atomic::operations! { @one $place, $token_generics $token, $(#[$doc])* $name }
    )* };
    (@one $place:ty, [$($token_generics:tt)*] $token:ty, $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If `at` lies beyond the end.
        #[inline(always)]
        pub fn $name<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
            // SAFETY: ATOMIC-1: `element` compares `at` with `len`. ATOMIC-2: all access is atomic.
            unsafe { T::$name::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
        }
    };
}
pub(crate) use operations;

operations!([T: AtomicElement] Atomic<'_, T>, DeviceScope, [K: ThreadToken] K);
operations!([T: AtomicElement, S: Scope] AtomicAt<'_, T, S>, S, [K: ThreadToken] K);

impl<T: AtomicElement> Atomic<'_, T> {
    /// # Safety
    /// ATOMIC-1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        Self {
            ptr,
            len,
            _buffer: PhantomData,
        }
    }

    crate::output::whole::len_of_output!();

    /// The same elements, with operations at the scope of the system (`atom.relaxed.sys`): for
    /// memory that the host or another GPU uses during the launch. Safe code has no such memory, so
    /// it does not need this scope.
    ///
    /// # Safety
    /// The elements are memory of this GPU, or managed memory, or the device's attribute
    /// `HOST_NATIVE_ATOMIC_SUPPORTED` is 1. Otherwise operations of this scope on mapped memory of
    /// the host are not atomic, also not to each other, while those of the GPU's scope are (CUDA
    /// C++ Programming Guide, "Atomicity").
    #[inline(always)]
    pub unsafe fn system(&self) -> AtomicAt<'_, T, SystemScope> {
        self.at_scope()
    }

    /// The same elements, with operations at the scope of the block (`atom.relaxed.cta`).
    ///
    /// # Safety
    /// During the launch, no other block uses the elements that this block uses through the
    /// returned value: at this scope, the operations of two blocks are not atomic to each other.
    #[inline(always)]
    pub unsafe fn block(&self) -> AtomicAt<'_, T, BlockScope> {
        self.at_scope()
    }

    #[inline(always)]
    fn at_scope<S: Place>(&self) -> AtomicAt<'_, T, S> {
        AtomicAt {
            ptr: self.ptr,
            len: self.len,
            _buffer: PhantomData,
        }
    }
}
