//! [`WriteCombinedView`]: write-combined memory that a stream reads, or that the host writes.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::write::HostWrite;
use crate::device::core::DeviceCore;
use crate::error::Result;
use crate::memory::{Element, PinnedSlice, RangeIndex};
use crate::tag::{HostPlace, WriteCombined};
use cuda_rt_driver::{CallSite, DeviceAddress};

/// Write-combined memory that the stream `S` may read, for `'v`. In
/// [`Graph::host`](crate::Graph::host) and [`Kept::host`](crate::Kept::host), where `S` is
/// [`OnHost`](crate::OnHost), the host may write it.
///
/// ```
/// # cuda_rt::streams! { Upload; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let upload = gpu.stream::<Upload>()?;
/// let source = upload.adopt(gpu.write_combined_from(&[1_u32, 2, 3])?)?;
/// let bundle = (source, upload.alloc_zeroed::<u32>(3)?);
/// let mut graph = upload.capture(bundle, |stream, (source, mut data)| {
///     stream.copy_to_device(&source, &mut data)
/// })?;
/// graph.launch(&upload)?;
/// graph.host(|(mut source, _)| source.fill(1.., 9))??; // the launch has read the elements
/// graph.launch(&upload)?;
/// let (_, data) = graph.into_inner();
/// assert_eq!(upload.copy_to_vec(&data)?, [1, 9, 9]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// WRITE-COMBINED-VIEW-1. For `'v`, `address` is the address of `len` elements of write-combined
// memory of `core`'s driver, which are live values of `T` and belong to `S`. No other view of the
// elements can write.
pub struct WriteCombinedView<'v, T, S> {
    address: DeviceAddress,
    len: usize,
    core: Arc<DeviceCore>,
    marker: PhantomData<(&'v mut (), T, fn(T) -> T, fn(S) -> S)>,
}

impl<T, S> fmt::Debug for WriteCombinedView<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "WriteCombinedView({:#x}, {} elements)",
            self.address.0, self.len
        )
    }
}

impl<T, S> WriteCombinedView<'_, T, S> {
    /// # Safety
    /// WRITE-COMBINED-VIEW-1.
    pub(super) unsafe fn new(address: DeviceAddress, len: usize, core: Arc<DeviceCore>) -> Self {
        Self {
            address,
            len,
            core,
            marker: PhantomData,
        }
    }
}

impl<T, S> Deref for WriteCombinedView<'_, T, S> {
    type Target = PinnedSlice<T, WriteCombined<S>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: WRITE-COMBINED-VIEW-1 gives PINNED-SLICE-1, and `S` reads the place
        // `WriteCombined<S>`.
        unsafe { PinnedSlice::from_raw(self.address, self.len) }
    }
}

// For the message alone: no stream writes the place.
impl<T, S> DerefMut for WriteCombinedView<'_, T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: as above; the view is unique for `'v`, and borrowed uniquely here.
        unsafe { PinnedSlice::from_raw_mut(self.address, self.len) }
    }
}

/// The host's writes, in a view for the host.
impl<T: Element, S> WriteCombinedView<'_, T, S> {
    /// As [`WriteCombinedBuffer::copy_from_slice`](crate::WriteCombinedBuffer::copy_from_slice).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14): no launch reads the elements meanwhile.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn copy_from_slice(&mut self, range: impl RangeIndex, source: &[T]) -> Result<()>
    where
        S: HostPlace,
    {
        self.host("WriteCombinedView::copy_from_slice")
            .copy_from_slice(range.within(self.len), source)
    }

    /// As [`WriteCombinedBuffer::fill`](crate::WriteCombinedBuffer::fill).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), as for [`copy_from_slice`](Self::copy_from_slice).
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn fill(&mut self, range: impl RangeIndex, value: T) -> Result<()>
    where
        S: HostPlace,
    {
        self.host("WriteCombinedView::fill")
            .write_with(range.within(self.len), |_| value)
    }

    /// As [`WriteCombinedBuffer::write_with`](crate::WriteCombinedBuffer::write_with).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), as for [`copy_from_slice`](Self::copy_from_slice).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// # cuda_rt::streams! { Upload; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let upload = gpu.stream::<Upload>()?;
    /// # let source = upload.adopt(gpu.write_combined::<u32>(4)?)?;
    /// # let bundle = (source, upload.alloc_zeroed::<u32>(4)?);
    /// # let mut graph = upload.capture(bundle, |stream, (source, mut data)| {
    /// #     stream.copy_to_device(&source, &mut data)
    /// # })?;
    /// graph.host(|(mut source, _)| {
    ///     source.write_with(..2, |at| at as u32 + 1)?;
    ///     source.copy_from_slice(2.., &[8, 9])
    /// })??;
    /// graph.launch(&upload)?;
    /// assert_eq!(upload.copy_to_vec(&graph.into_inner().1)?, [1, 2, 8, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn write_with(&mut self, range: impl RangeIndex, value: impl FnMut(usize) -> T) -> Result<()>
    where
        S: HostPlace,
    {
        self.host("WriteCombinedView::write_with")
            .write_with(range.within(self.len), value)
    }

    #[track_caller]
    fn host(&self, during: &'static str) -> HostWrite<'_, T>
    where
        S: HostPlace,
    {
        let address = std::ptr::with_exposed_provenance_mut(self.address.0 as usize);
        // Never null: the address of a block, or a dangling one.
        let start = NonNull::new(address).unwrap_or(NonNull::dangling());
        // SAFETY: HOST-WRITE-1, by `HostPlace`: the elements are live for `'v`, and no work uses
        // them. The callers have the view uniquely, and no other view can write.
        unsafe { HostWrite::new(&self.core, start, self.len, CallSite::here(during)) }
    }
}
