//! [`KernelOutput`]: the memory that takes what a kernel returns.

use std::mem::MaybeUninit;

use crate::error::{Error, Refused};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceViewMut, Element, ManagedBuffer, PeerBuffer};
use crate::tag::{DeviceTag, StreamTag, WriteBy};

/// Memory that takes what a kernel returns, on the stream `S`. It is the last argument of the
/// launch, behind all parameters of the kernel.
///
/// A kernel that returns its element writes each element of its output once, and reads none.
/// Therefore the output may be memory that nothing wrote before, of
/// [`alloc_uninit`](crate::Stream::alloc_uninit). The launch takes such a buffer by value, and
/// gives it back as a buffer that may be read. No `cuMemsetD8Async` and no pass over the memory are
/// needed.
///
/// Each kind of output, and what a launch returns for it:
///
/// - `DeviceBuffer<MaybeUninit<T>, S>`: `DeviceBuffer<T, S>`. On an error: [`Refused`] with the
///   buffer.
/// - [`ManagedBuffer<MaybeUninit<T>, S>`](crate::ManagedBuffer): `ManagedBuffer<T, S>`. On an
///   error: [`Refused`] with the buffer.
/// - [`MappedOutput<T, S>`](crate::MappedOutput), pinned memory: `PinnedBuffer<T, S>`. On an error:
///   [`Refused`] with the output.
/// - `&mut DeviceSlice<MaybeUninit<T>, S>`: `&mut DeviceSlice<T, S>`: the same memory, for as long
///   as it is borrowed. On an error: [`Error`].
/// - `&mut` of a `DeviceBuffer<T, S>`, a `DeviceSlice` or a `DeviceViewMut`: `()`. On an error:
///   [`Error`].
///
/// A kernel that returns its element may end a closure: `?` converts the error of a launch, and a
/// launch by value has the error [`Refused`]. So write `Ok::<_, Error>(add(..)?)`, and not
/// `add(..)` alone:
///
/// ```text
/// compute.lend_ref(&left, &x, |x| {
///     Ok::<_, Error>(add(&left, grid, x, x, left.alloc_uninit(64)?)?)
/// })??;
/// ```
///
/// A grid that covers fewer elements than the output has is refused before anything is enqueued
/// ([`GridError::Output`](crate::GridError::Output)). Threads beyond the end of the output do not
/// run.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// fn add(i: Index1, a: &[f32], b: &[f32]) -> f32 {
///     a[i.get()] + b[i.get()]
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # let gpu = cuda_rt::Device::simulated(Default::default(), |gpu| {
/// let compute = gpu.stream::<Compute<_>>()?;
/// let (a, b) = (compute.alloc_from_slice(&[1.0; 512])?, compute.alloc_from_slice(&[2.0; 512])?);
/// let grid = cuda_rt::Grid1::covering(512);
/// // A `DeviceBuffer<f32, Compute>`:
/// let mut sum = add(&compute, grid, &a, &b, compute.alloc_uninit(512)?)?;
/// add(&compute, grid, &a, &b, &mut sum)?; // memory that was written before serves too
/// assert_eq!(compute.copy_to_vec(&sum)?, [3.0; 512]);
/// # Ok::<(), cuda_rt::Error>(())
/// # })?;
/// # gpu
/// # }
/// ```
///
/// # Hazards prevented
/// [H39](crate::hazards#h39) (memory that nobody wrote), [H29](crate::hazards#h29) (an input is
/// also the output), [H03](crate::hazards#h03).
///
/// # Safety
/// `memory` gives the address and length of memory of `S`, which the value owns or borrows
/// uniquely. `written` is sound if each element is written in the order of `S`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take elements `{T}` that a kernel returns on stream `{S}`",
    label = "not an output of `{T}` on this stream",
    note = "the output is the call's last argument, behind all parameters of the kernel: `f(i: Index1, x: &[f32], factor: f32) -> f32` \
            is launched by `f(&stream, grid, &x, factor, output)?`",
    note = "pass memory that nothing wrote, by value: `stream.alloc_uninit(len)?`; the launch returns it as a buffer that may be read",
    note = "memory that was written before is passed by `&mut`: `&mut buffer`, `&mut buffer[..n]`",
    note = "H01: memory of another stream is handed over first: `stream.acquire(other.release(buffer)?)?`"
)]
pub unsafe trait KernelOutput<S, T>: Sized {
    /// What a launch returns.
    type Written;
    /// The error of a launch that was refused.
    type Error;

    /// Address and length, in elements.
    #[doc(hidden)]
    fn memory(&self) -> [u64; 2];

    /// The output, after a launch that writes it was enqueued.
    ///
    /// # Safety
    /// Work already enqueued in the order of `S` writes each element of [`memory`](Self::memory).
    #[doc(hidden)]
    unsafe fn written(self) -> Self::Written;

    /// The output's error, for a launch that failed.
    #[doc(hidden)]
    fn refused(self, error: Error) -> Self::Error;
}

// SAFETY: the buffer owns its memory, and belongs to `S` (BUFFER-1, BUFFER-3).
unsafe impl<T: Element, S: StreamTag> KernelOutput<S, T> for DeviceBuffer<MaybeUninit<T>, S> {
    type Written = DeviceBuffer<T, S>;
    type Error = Refused<Self>;

    #[inline]
    fn memory(&self) -> [u64; 2] {
        let slice: &DeviceSlice<_, S> = self;
        [slice.address().0, slice.len() as u64]
    }

    #[inline]
    unsafe fn written(self) -> DeviceBuffer<T, S> {
        // SAFETY: each element is written in the order of `S` by this function's contract, and `S`
        // is the buffer's stream.
        unsafe { self.assume_init() }
    }

    fn refused(self, error: Error) -> Refused<Self> {
        Refused { error, value: self }
    }
}

// SAFETY: the memory is borrowed uniquely (SLICE-2), and belongs to `S` (`WriteBy`).
unsafe impl<'a, T: Element, S: StreamTag, P: WriteBy<S>> KernelOutput<S, T>
    for &'a mut DeviceSlice<MaybeUninit<T>, P>
{
    type Written = &'a mut DeviceSlice<T, P>;
    type Error = Error;

    #[inline]
    fn memory(&self) -> [u64; 2] {
        [self.address().0, self.len() as u64]
    }

    #[inline]
    unsafe fn written(self) -> &'a mut DeviceSlice<T, P> {
        // SAFETY: SLICE-1 and SLICE-2: `self` has the same address and length, `T` has the size of
        // `MaybeUninit<T>`, and `self` is not used again during `'a`. Each element is written in
        // the order of `S` by this function's contract; other uses of memory of `S` come later.
        unsafe { DeviceSlice::from_raw_mut(self.address(), self.len()) }
    }

    fn refused(self, error: Error) -> Error {
        error
    }
}

macro_rules! written_before {
    ($({$($generics:tt)*} $type:ty, $place:ty;)*) => { $(
        // SAFETY: the memory is borrowed uniquely (SLICE-2), and belongs to `S` (`WriteBy`). It was
        // written before, so `written` promises nothing new.
        unsafe impl<$($generics)*> KernelOutput<S, T> for &mut $type {
            type Written = ();
            type Error = Error;

            #[inline]
            fn memory(&self) -> [u64; 2] {
                let slice: &DeviceSlice<T, $place> = &**self;
                [slice.address().0, slice.len() as u64]
            }

            #[inline]
            unsafe fn written(self) {}

            fn refused(self, error: Error) -> Error {
                error
            }
        }
    )* };
}

written_before! {
    {T: Element, S: StreamTag, P: WriteBy<S>} DeviceSlice<T, P>, P;
    {T: Element, S: StreamTag} DeviceBuffer<T, S>, S;
    {T: Element, S: StreamTag} ManagedBuffer<T, S>, S;
    {T: Element, D: DeviceTag, S: StreamTag} PeerBuffer<T, D, S>, S;
    {'v, T: Element, S: StreamTag, P: WriteBy<S>} DeviceViewMut<'v, T, P>, P;
}
