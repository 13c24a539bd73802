//! [`RangeIndex`]: the indices of memory that a stream owns, which are ranges.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

mod sealed {
    pub trait Sealed {}
}

/// An index of memory that a stream owns: a range of elements. A single element is no index,
/// because the host may not read it.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let mut data = compute.alloc_zeroed::<u32>(8)?;
/// compute.fill(&mut data[2..4], 1)?; // any range of elements indexes a slice
/// compute.fill(&mut data[6..], 2)?;
/// assert_eq!(compute.copy_to_vec(&data[..])?, [0, 0, 1, 1, 0, 0, 2, 2]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write device memory, nor what a stream owns",
    label = "the host may not touch this element: a stream may still use it, or it is in device memory",
    note = "H13/H14/H30: wait for the stream first: `let buffer = stream.release(buffer)?.synchronize()?;` \
            (device memory must be copied to pinned memory with `copy_to_host`); `stream.synchronize()` alone gives no buffer",
    note = "H25: nothing has run yet inside a capture; after the launch, `graph.host(|views| ..)?` waits, and the elements of pinned \
            memory are `view.as_slice()`"
)]
pub trait RangeIndex: sealed::Sealed {
    /// The type of a part of `View`, which is `View` itself. As an associated type it does not
    /// exist for an index that is no range. So rustc reports only that error, and not the
    /// consequences of an unsized element.
    #[doc(hidden)]
    type Part<View: ?Sized>: ?Sized;

    /// The range of elements in a slice of `len` elements.
    ///
    /// # Panics
    /// If the range is not within `0..len`.
    #[doc(hidden)]
    fn within(self, len: usize) -> Range<usize>;

    #[doc(hidden)]
    fn part<View: ?Sized>(view: &View) -> &Self::Part<View>;

    #[doc(hidden)]
    fn part_mut<View: ?Sized>(view: &mut View) -> &mut Self::Part<View>;
}

#[track_caller]
fn resolve(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.checked_add(1).expect("range starts past usize::MAX"),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1).expect("range ends past usize::MAX"),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    assert!(start <= end, "range starts at {start} but ends at {end}");
    assert!(end <= len, "range ends at {end}, past a length of {len}");
    start..end
}

macro_rules! ranges {
    ($($range:ty)*) => { $(
        impl sealed::Sealed for $range {}
        impl RangeIndex for $range {
            type Part<View: ?Sized> = View;

            #[inline]
            #[track_caller]
            fn within(self, len: usize) -> Range<usize> {
                resolve(self, len)
            }

            #[inline]
            fn part<View: ?Sized>(view: &View) -> &View {
                view
            }

            #[inline]
            fn part_mut<View: ?Sized>(view: &mut View) -> &mut View {
                view
            }
        }
    )* };
}

ranges! { Range<usize> RangeFrom<usize> RangeTo<usize> RangeFull RangeInclusive<usize> RangeToInclusive<usize> }
