//! [`PinnedSlice`]: a view of page-locked memory that a stream owns.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};
use std::ptr::NonNull;

use super::range::RangeIndex;
use super::slice::units;
use crate::tag::HostPlace;
use cuda_rt_driver::DeviceAddress;

/// A view of pinned host memory that a stream owns. The CPU cannot reach the elements through it,
/// unless the view is for the host ([`OnHost`](crate::OnHost)).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let data = compute.alloc_from_slice(&[3_u32, 1, 2, 0])?;
/// let mut host = compute.adopt(gpu.pinned::<u32>(4)?)?;
/// let (left, right) = host.split_at_mut(2); // two views, for two copies
/// compute.copy_to_host(&data[..2], left)?;
/// compute.copy_to_host(&data[2..], right)?;
/// assert_eq!(host[1..].cast::<u8>()?.len(), 12);
/// let graph = compute.capture(host, |stream, mut host| {
///     stream.host_fn(&mut *host, |host| host[0] += 1) // when the stream gets there
/// });
/// let mut graph = graph?;
/// graph.launch(&compute)?;
///
/// // A view for the host has the methods of `[T]`.
/// graph.host(|mut host| {
///     assert_eq!((host.len(), host.first(), host.last()), (4, Some(&4), Some(&0)));
///     assert_eq!((host.to_vec(), host.get(9)), (vec![4, 1, 2, 0], None));
///     assert!(host.contains(&2) && host.iter().sum::<u32>() == 7);
///     host.sort();
///     host.swap(0, 3);
///     host.as_mut_slice()[1] = 9;
///     assert_eq!(host.as_slice(), [4, 9, 2, 0]);
///     host.copy_from_slice(&[1, 2, 3, 4]);
///     host.fill(5);
/// })?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// PINNED-SLICE-1. For the reference's lifetime its address is the address of `len` elements of
// page-locked memory, which are values of `T`, aligned for `T`, and belong to the place `P`. If the
// elements have 0 bytes, the address is any but null.
// PINNED-SLICE-2. `&mut` references are unique among all references to overlapping memory.
// PINNED-SLICE-3. Nothing is read or written through it on the host, unless `P` is `OnHost`. Then
// no work of a GPU uses the memory for the reference's lifetime, or, behind `&`, none writes it.
#[repr(transparent)]
pub struct PinnedSlice<T, P> {
    marker: PhantomData<(T, fn(P) -> P)>,
    elements: [()],
}

impl<T, P> fmt::Debug for PinnedSlice<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedSlice({:?}, {} elements)", self.address(), self.len())
    }
}

impl<T, P> PinnedSlice<T, P> {
    /// # Safety
    /// PINNED-SLICE-1 holds for `'a`, and no `&mut` overlaps it.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        // SAFETY: `Self` is transparent over `[()]`, which has no bytes, needs no alignment, and is
        // valid at any address that is not null (PINNED-SLICE-1).
        unsafe { &*(units(address, len) as *const Self) }
    }

    /// # Safety
    /// PINNED-SLICE-1 and PINNED-SLICE-2 hold for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        // SAFETY: as in `from_raw`.
        unsafe { &mut *(units(address, len) as *mut Self) }
    }

    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The address of the memory. Reading or writing there takes `unsafe`, and is a race while the
    /// stream owns the memory.
    #[inline]
    pub fn address(&self) -> NonNull<c_void> {
        let address = self.elements.as_ptr().addr();
        // PINNED-SLICE-1: never null. The provenance was exposed when the memory was mapped or
        // adopted.
        NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
    }

    /// As [`address`](Self::address), under the name that a buffer's address has.
    #[inline]
    pub(super) fn start(&self) -> NonNull<c_void> {
        self.address()
    }

    pub(super) fn device_address(&self) -> DeviceAddress {
        self.part(&(0..0))
    }

    fn part(&self, range: &Range<usize>) -> DeviceAddress {
        DeviceAddress((self.elements.as_ptr().addr() + range.start * size_of::<T>()) as u64)
    }

    /// The elements, if there are bytes. Otherwise the address may not be aligned, and any aligned
    /// address serves.
    fn elements(&self) -> NonNull<T> {
        if size_of::<T>() * self.len() == 0 {
            return NonNull::dangling();
        }
        self.address().cast()
    }

    /// The elements, in a view for the host ([`Graph::host`](crate::Graph::host)).
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13): only a closure that runs after a wait gets a view for the host.
    #[inline]
    pub fn as_slice(&self) -> &[T]
    where
        P: HostPlace,
    {
        // SAFETY: PINNED-SLICE-1 and PINNED-SLICE-3, by `HostPlace`: the elements are live and
        // initialised, and nothing writes them.
        unsafe { std::slice::from_raw_parts(self.elements().as_ptr(), self.len()) }
    }

    /// The elements for writing, in a view for the host ([`Graph::host`](crate::Graph::host)).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14): no copy of a GPU reads the elements meanwhile.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T]
    where
        P: HostPlace,
    {
        // SAFETY: as above, and PINNED-SLICE-2: the view is unique, and borrowed uniquely here.
        unsafe { std::slice::from_raw_parts_mut(self.elements().as_ptr(), self.len()) }
    }

    /// Splits the view at element `mid`. Both halves can be used at once, because they do not
    /// overlap.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at_mut(&mut self, mid: usize) -> (&mut Self, &mut Self) {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let (start, middle) = (self.part(&(0..mid)), self.part(&(mid..len)));
        // SAFETY: PINNED-SLICE-1 and PINNED-SLICE-2: the first `mid` elements of uniquely borrowed
        // memory, which the other half does not overlap.
        let left = unsafe { Self::from_raw_mut(start, mid) };
        // SAFETY: PINNED-SLICE-1 and PINNED-SLICE-2: the other elements of the same memory.
        let right = unsafe { Self::from_raw_mut(middle, len - mid) };
        (left, right)
    }
}

impl<T, P, I: RangeIndex> Index<I> for PinnedSlice<T, P> {
    type Output = I::Part<Self>;

    #[inline]
    #[track_caller]
    fn index(&self, range: I) -> &I::Part<Self> {
        let range = range.within(self.len());
        // SAFETY: a part of memory for which PINNED-SLICE-1 holds, for no longer than `self` is
        // borrowed.
        I::part(unsafe { Self::from_raw(self.part(&range), range.len()) })
    }
}

impl<T, P, I: RangeIndex> IndexMut<I> for PinnedSlice<T, P> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, range: I) -> &mut I::Part<Self> {
        let range = range.within(self.len());
        // SAFETY: a part of uniquely borrowed memory, for no longer than the borrow
        // (PINNED-SLICE-1, PINNED-SLICE-2).
        I::part_mut(unsafe { Self::from_raw_mut(self.part(&range), range.len()) })
    }
}
