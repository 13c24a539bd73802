//! [`Loan`]: views that one stream lends to another together.

use super::view::{DeviceView, DeviceViewMut, PinnedView, PinnedViewMut};
use super::{DeviceBuffer, DeviceSlice, ManagedBuffer, PeerBuffer, PinnedBuffer, PinnedSlice};
use super::{WriteCombinedBuffer, WriteCombinedView};
use crate::tag::{DeviceTag, StreamTag, WriteCombined};

/// Borrowed memory of the stream `S`, which [`Stream::lend_all`](crate::Stream::lend_all) lends to
/// another stream: `&` to read it, `&mut` to write it. Buffers, slices and views of device memory
/// and of pinned memory, and tuples and arrays of them.
///
/// # Safety
/// `lent` returns views of the borrowed memory, and of no other. A view that can write is of memory
/// borrowed by `&mut`.
///
/// ```
/// # cuda_rt::streams! { pub Owner; pub Helper; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (owner, helper) = (gpu.stream::<Owner>()?, gpu.stream::<Helper>()?);
/// let input = owner.alloc_from_slice(&[1_u32, 2, 3])?;
/// let mut output = owner.alloc_zeroed::<u32>(3)?;
/// // A tuple of views is a loan: the other stream reads one, and writes the other.
/// owner.lend_all(&helper, (&input, &mut output), |(input, mut output)| {
///     helper.copy(&input, &mut output)
/// })??;
/// assert_eq!(owner.copy_to_vec(&output)?, [1, 2, 3]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent by stream `{S}`",
    label = "not a borrow of memory that belongs to `{S}`",
    note = "lend `&` to read and `&mut` to write, of what this stream owns: `stream.lend_all(&to, (&input, &mut output), ..)`",
    note = "H01: what belongs to another stream is handed over first: `let buffer = stream.acquire(owner.release(buffer)?)?;`"
)]
pub unsafe trait Loan<S: StreamTag>: Sized {
    /// The views that the stream `To` gets, for `'l`.
    type On<'l, To: StreamTag>;

    /// The same memory, for `To`.
    ///
    /// # Safety
    /// For `'l` the borrows of `self` last, and work of `To` that uses the views is ordered like
    /// work of `S`.
    #[doc(hidden)]
    unsafe fn lent<'l, To: StreamTag>(self) -> Self::On<'l, To>;
}

macro_rules! views {
    ($slice:ident; $([$($generics:tt)*] $borrowed:ty => $view:ident;)*) => { $(
        // SAFETY: the view is of the borrowed memory. It can write only if `$borrowed` is `&mut`.
        unsafe impl<$($generics)* T, S: StreamTag> Loan<S> for $borrowed {
            type On<'l, To: StreamTag> = $view<'l, T, To>;

            unsafe fn lent<'l, To: StreamTag>(self) -> $view<'l, T, To> {
                let slice: &$slice<T, S> = &self;
                // SAFETY: VIEW-1 for `'l` and `To`, by this function's contract.
                unsafe { $view::new(slice.device_address(), slice.len()) }
            }
        }
    )* };
}

views! { DeviceSlice;
    [] &DeviceSlice<T, S> => DeviceView;
    [] &mut DeviceSlice<T, S> => DeviceViewMut;
    [] &DeviceBuffer<T, S> => DeviceView;
    [] &mut DeviceBuffer<T, S> => DeviceViewMut;
    [D: DeviceTag,] &PeerBuffer<T, D, S> => DeviceView;
    [D: DeviceTag,] &mut PeerBuffer<T, D, S> => DeviceViewMut;
    [] &ManagedBuffer<T, S> => DeviceView;
    [] &mut ManagedBuffer<T, S> => DeviceViewMut;
    ['v,] &DeviceView<'v, T, S> => DeviceView;
    ['v,] &DeviceViewMut<'v, T, S> => DeviceView;
    ['v,] &mut DeviceViewMut<'v, T, S> => DeviceViewMut;
}

views! { PinnedSlice;
    [] &PinnedSlice<T, S> => PinnedView;
    [] &mut PinnedSlice<T, S> => PinnedViewMut;
    [] &PinnedBuffer<T, S> => PinnedView;
    [] &mut PinnedBuffer<T, S> => PinnedViewMut;
    ['v,] &PinnedView<'v, T, S> => PinnedView;
    ['v,] &PinnedViewMut<'v, T, S> => PinnedView;
    ['v,] &mut PinnedViewMut<'v, T, S> => PinnedViewMut;
}

/// Write-combined memory, which streams only read.
macro_rules! write_combined {
    ($([$($generics:tt)*] $borrowed:ty;)*) => { $(
        // SAFETY: the view is of the borrowed memory, and cannot write.
        unsafe impl<$($generics)* T, S: StreamTag> Loan<S> for $borrowed {
            type On<'l, To: StreamTag> = PinnedView<'l, T, WriteCombined<To>>;

            unsafe fn lent<'l, To: StreamTag>(self) -> PinnedView<'l, T, WriteCombined<To>> {
                let slice: &PinnedSlice<T, WriteCombined<S>> = &self;
                // SAFETY: VIEW-1 for `'l` and `To`, by this function's contract.
                unsafe { PinnedView::new(slice.device_address(), slice.len()) }
            }
        }
    )* };
}

write_combined! {
    [] &PinnedSlice<T, WriteCombined<S>>;
    [] &WriteCombinedBuffer<T, S>;
    ['v,] &PinnedView<'v, T, WriteCombined<S>>;
    ['v,] &WriteCombinedView<'v, T, S>;
}

macro_rules! tuples {
    ($(($($part:ident $value:ident),*);)*) => { $(
        // SAFETY: each part is lent as by itself.
        unsafe impl<S: StreamTag, $($part: Loan<S>),*> Loan<S> for ($($part,)*) {
            type On<'l, To: StreamTag> = ($($part::On<'l, To>,)*);

            unsafe fn lent<'l, To: StreamTag>(self) -> Self::On<'l, To> {
                let ($($value,)*) = self;
                ($(
                    // SAFETY: this function's contract covers every part.
                    unsafe { $value.lent() },
                )*)
            }
        }
    )* };
}

tuples! {
    (A a, B b);
    (A a, B b, C c);
    (A a, B b, C c, E e);
    (A a, B b, C c, E e, F f);
    (A a, B b, C c, E e, F f, G g);
    (A a, B b, C c, E e, F f, G g, H h);
    (A a, B b, C c, E e, F f, G g, H h, I i);
}

// SAFETY: each element is lent as by itself.
unsafe impl<S: StreamTag, L: Loan<S>, const N: usize> Loan<S> for [L; N] {
    type On<'l, To: StreamTag> = [L::On<'l, To>; N];

    unsafe fn lent<'l, To: StreamTag>(self) -> Self::On<'l, To> {
        // SAFETY: this function's contract covers every element.
        self.map(|part| unsafe { part.lent() })
    }
}
