//! [`DeviceSlice`]: a view of device memory.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut, Range};

use super::range::RangeIndex;
use cuda_rt_driver::DeviceAddress;

/// A view of memory that a device works on: its own memory, or memory elsewhere that its kernels
/// reach, such as [mapped pinned memory](crate::Stream::mapped). Programs use `&DeviceSlice` and
/// `&mut DeviceSlice`, like `&[T]` and `&mut [T]`.
///
/// ```text
///   &DeviceSlice<f32, Compute>
///   ┌───────────────────────┬───────────────────┐
///   │ address on the device │ length (elements) │
///   └───────────────────────┴───────────────────┘
/// ```
///
/// The pointee has no bytes that the host could touch: a reference is an address and a length. So
/// Rust's own aliasing rules hold for device memory at no cost. Two overlapping `&mut DeviceSlice`
/// are as impossible as two overlapping `&mut [f32]` ([H11](crate::hazards#h11)).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceSlice, Error, Stream};
///
/// /// Takes a part of a buffer too: `&mut buffer[2..]`.
/// fn clear(compute: &Stream<Compute>, data: &mut DeviceSlice<f32, Compute>) -> Result<(), Error> {
///     compute.fill(data, 0.0)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let mut data = compute.alloc_from_slice(&[1.0_f32; 8])?;
/// clear(&compute, &mut data[6..])?;
///
/// // Two halves at once, and equal parts.
/// let (left, right) = data.split_at_mut(4);
/// compute.copy(left, right)?;
/// for (at, part) in data.chunks_exact_mut(2).enumerate() {
///     compute.fill(part, at as f32)?;
/// }
/// let mut copy = compute.alloc_zeroed::<f32>(2)?;
/// compute.copy(data.chunks_exact(2).nth(3).expect("there are four"), &mut copy)?;
/// assert_eq!(compute.copy_to_vec(&copy)?, [3.0; 2]);
///
/// // The same bytes, as other elements.
/// let (head, _tail) = data.split_at(1);
/// assert_eq!(head.cast::<u8>()?.len(), 4);
/// compute.fill(data[..1].cast_mut::<u32>()?, 1.0_f32.to_bits())?;
/// assert_eq!(compute.copy_to_vec(&data[..1])?, [1.0]);
/// assert_eq!(data[1..].address().0, data.address().0 + 4);
/// # Ok::<(), Error>(())
/// ```
//
// # Invariants
// SLICE-1. For the reference's lifetime its address is the address of `len` elements of memory,
// which are allocated and belong to the place `P`. The device of `P` reaches them there. If the
// elements have 0 bytes, the address dangles, but is not null.
// SLICE-2. `&mut` references are unique among all references to overlapping memory.
// SLICE-3. Only the address is ever used on the host; nothing is read or written through it.
#[repr(transparent)]
pub struct DeviceSlice<T, P> {
    marker: PhantomData<(T, fn(P) -> P)>,
    elements: [()],
}

impl<T, P> fmt::Debug for DeviceSlice<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSlice({:#x}, {} elements)", self.address().0, self.len())
    }
}

/// The address of a view or buffer of 0 bytes.
pub(super) const DANGLING: DeviceAddress = DeviceAddress(256);

/// A slice that carries an address and a length, and has no bytes.
#[inline]
pub(super) fn units(address: DeviceAddress, len: usize) -> *mut [()] {
    std::ptr::slice_from_raw_parts_mut(std::ptr::without_provenance_mut(address.0 as usize), len)
}

impl<T, P> DeviceSlice<T, P> {
    /// # Safety
    /// SLICE-1 holds for `'a`, and no `&mut` overlaps it.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(address: DeviceAddress, len: usize) -> &'a Self {
        debug_assert!(address.0 != 0);
        // SAFETY: `Self` is transparent over `[()]`, which has no bytes, needs no alignment, and is
        // valid at any address that is not null (SLICE-1).
        unsafe { &*(units(address, len) as *const Self) }
    }

    /// # Safety
    /// SLICE-1 and SLICE-2 hold for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw_mut<'a>(address: DeviceAddress, len: usize) -> &'a mut Self {
        debug_assert!(address.0 != 0);
        // SAFETY: as in `from_raw`.
        unsafe { &mut *(units(address, len) as *mut Self) }
    }

    /// The address of a view of 0 bytes.
    #[inline]
    pub(crate) fn empty_address() -> DeviceAddress {
        DANGLING
    }

    /// The same memory, as memory that may hold nothing.
    ///
    /// # Safety
    /// Only values of `T` are written through the result.
    #[inline]
    pub(crate) unsafe fn as_uninit_mut(&mut self) -> &mut DeviceSlice<MaybeUninit<T>, P> {
        // SAFETY: SLICE-1 and SLICE-2 hold for `self`, which is borrowed uniquely and has the same
        // address and length. `MaybeUninit<T>` has the size of `T`.
        unsafe { DeviceSlice::from_raw_mut(self.address(), self.len()) }
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

    /// The address of the memory, by which the device reaches it. It is a number: a use takes
    /// `unsafe`.
    #[inline]
    pub fn address(&self) -> DeviceAddress {
        DeviceAddress(self.elements.as_ptr().addr() as u64)
    }

    /// The address, by one name for device memory and pinned memory.
    pub(super) fn device_address(&self) -> DeviceAddress {
        self.address()
    }

    #[inline]
    fn address_at(&self, index: usize) -> DeviceAddress {
        DeviceAddress(self.address().0 + (index * size_of::<T>()) as u64)
    }

    #[inline]
    fn part(&self, range: Range<usize>) -> &Self {
        debug_assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: a part of memory for which SLICE-1 holds, for no longer than `self` is borrowed.
        unsafe { Self::from_raw(self.address_at(range.start), range.len()) }
    }

    /// Splits the view at element `mid`.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at(&self, mid: usize) -> (&Self, &Self) {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        (self.part(0..mid), self.part(mid..len))
    }

    /// Splits the view at element `mid`. Both halves can be used at once, because they do not
    /// overlap ([H11](crate::hazards#h11)).
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at_mut(&mut self, mid: usize) -> (&mut Self, &mut Self) {
        let len = self.len();
        assert!(mid <= len, "split at {mid}, past a length of {len}");
        let (start, middle) = (self.address(), self.address_at(mid));
        // SAFETY: SLICE-1 and SLICE-2: the first `mid` elements of uniquely borrowed memory, which
        // the other half does not overlap.
        let left = unsafe { Self::from_raw_mut(start, mid) };
        // SAFETY: SLICE-1 and SLICE-2: the other elements of the same memory.
        let right = unsafe { Self::from_raw_mut(middle, len - mid) };
        (left, right)
    }

    /// Iterates over parts of `chunk_len` elements each. A shorter rest is left out.
    ///
    /// # Panics
    /// If `chunk_len` is 0.
    #[track_caller]
    pub fn chunks_exact(&self, chunk_len: usize) -> ChunksExact<'_, T, P> {
        assert!(chunk_len != 0, "chunks of 0 elements");
        ChunksExact {
            rest: self,
            chunk_len,
        }
    }

    /// Like [`chunks_exact`](Self::chunks_exact), for writing. All parts can be used at once.
    ///
    /// # Panics
    /// If `chunk_len` is 0.
    #[track_caller]
    pub fn chunks_exact_mut(&mut self, chunk_len: usize) -> ChunksExactMut<'_, T, P> {
        assert!(chunk_len != 0, "chunks of 0 elements");
        ChunksExactMut {
            rest: Some(self),
            chunk_len,
        }
    }
}

impl<T, P, I: RangeIndex> Index<I> for DeviceSlice<T, P> {
    type Output = I::Part<Self>;

    #[inline]
    #[track_caller]
    fn index(&self, range: I) -> &I::Part<Self> {
        I::part(self.part(range.within(self.len())))
    }
}

impl<T, P, I: RangeIndex> IndexMut<I> for DeviceSlice<T, P> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, range: I) -> &mut I::Part<Self> {
        let range = range.within(self.len());
        // SAFETY: a part of uniquely borrowed memory, for no longer than the borrow (SLICE-1,
        // SLICE-2).
        I::part_mut(unsafe { Self::from_raw_mut(self.address_at(range.start), range.len()) })
    }
}

/// Iterator of [`DeviceSlice::chunks_exact`].
#[derive(Debug)]
pub struct ChunksExact<'a, T, P> {
    rest: &'a DeviceSlice<T, P>,
    chunk_len: usize,
}

impl<'a, T, P> Iterator for ChunksExact<'a, T, P> {
    type Item = &'a DeviceSlice<T, P>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < self.chunk_len {
            return None;
        }
        let (chunk, rest) = self.rest.split_at(self.chunk_len);
        self.rest = rest;
        Some(chunk)
    }
}

/// Iterator of [`DeviceSlice::chunks_exact_mut`].
#[derive(Debug)]
pub struct ChunksExactMut<'a, T, P> {
    rest: Option<&'a mut DeviceSlice<T, P>>,
    chunk_len: usize,
}

impl<'a, T, P> Iterator for ChunksExactMut<'a, T, P> {
    type Item = &'a mut DeviceSlice<T, P>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take_if(|rest| rest.len() >= self.chunk_len)?;
        let (chunk, rest) = rest.split_at_mut(self.chunk_len);
        self.rest = Some(rest);
        Some(chunk)
    }
}
