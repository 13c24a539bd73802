//! Copies of rows: 2-D and 3-D copies between linear memory.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::device::call::Call;
use crate::error::{CopySide, Error, LayoutError, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, Element, Layout3, PinnedBuffer, PinnedSlice};
use crate::stream::Stream;
use crate::tag::{ReadBy, StreamTag, WriteBy};
use cuda_rt_driver::{CopyExtent, Kind, Pitch};

/// Copies of rows.
impl<S: StreamTag> Stream<S> {
    /// Copies rows within the device: a region of a frame, a frame with a stride to a packed one, a
    /// plane of NV12 (`cuMemcpy2DAsync`; `cuMemcpy3DAsync` for several planes). Stream-ordered.
    ///
    /// Layouts count in elements. Both have the same width, height and depth; offset and stride may
    /// differ. Gaps between rows are neither read nor written. A size of 0 copies nothing. CUDA
    /// takes strides of up to 2 GiB.
    ///
    /// In a graph, CUDA can change no copy of rows: a [`Graph::update`](crate::Graph::update) to
    /// other rows or other memory returns [`Error::NotAnUpdate`].
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03), [H11](crate::hazards#h11): as for
    /// [`copy`](Self::copy); all of both slices counts as used.
    ///
    /// # Errors
    /// [`Error::Layout`] if a layout does not fit its memory, or the layouts do not fit each other;
    /// nothing was enqueued. [`Error::Driver`].
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::Layout2;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// // A frame of 4 columns and 3 rows, 6 elements apart.
    /// let frame = compute.alloc_from_slice(&(0..18).collect::<Vec<u32>>())?;
    /// let rows = Layout2::packed(4, 3).with_stride(6);
    /// let mut corner = compute.alloc_zeroed::<u32>(4)?;
    /// compute.copy_rows(
    ///     &frame,
    ///     rows.region(2, 1, 2, 2),
    ///     &mut corner,
    ///     Layout2::packed(2, 2),
    /// )?;
    /// assert_eq!(compute.copy_to_vec(&corner)?, [8, 9, 14, 15]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[doc(alias = "copy_2d")]
    #[doc(alias = "copy_3d")]
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[track_caller]
    pub fn copy_rows<T: Element, P: ReadBy<S>, Q: WriteBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        from: impl Into<Layout3>,
        destination: &mut DeviceSlice<T, Q>,
        to: impl Into<Layout3>,
    ) -> Result<()> {
        let call = self.call("Stream::copy_rows");
        let lens = (source.len(), destination.len());
        match Rows::checked::<T>(&call, (from.into(), to.into()), lens)? {
            Some(rows) => rows.copy(&call, &source[rows.read()], &mut destination[rows.written()]),
            None => Ok(()),
        }
    }

    /// Copies rows of pinned memory to the device (`cuMemcpy2DAsync`, `cuMemcpy3DAsync`).
    /// Stream-ordered. Layouts and errors are those of [`copy_rows`](Self::copy_rows).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), [H15](crate::hazards#h15): as for
    /// [`copy_to_device`](Self::copy_to_device).
    ///
    /// # Errors
    /// [`Error::Layout`] and [`Error::Driver`].
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[track_caller]
    pub fn copy_rows_to_device<T: Element, P: ReadBy<S>, Q: WriteBy<S>>(
        &self,
        source: &PinnedSlice<T, P>,
        from: impl Into<Layout3>,
        destination: &mut DeviceSlice<T, Q>,
        to: impl Into<Layout3>,
    ) -> Result<()> {
        let call = self.call("Stream::copy_rows_to_device");
        let lens = (source.len(), destination.len());
        match Rows::checked::<T>(&call, (from.into(), to.into()), lens)? {
            Some(rows) => rows.copy_to_device(&call, &source[rows.read()], &mut destination[rows.written()]),
            None => Ok(()),
        }
    }

    /// Copies rows of device memory to pinned memory (`cuMemcpy2DAsync`, `cuMemcpy3DAsync`).
    /// Stream-ordered. Layouts and errors are those of [`copy_rows`](Self::copy_rows).
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13): as for [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`Error::Layout`] and [`Error::Driver`].
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::{Layout2, Layout3};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// // Two frames of 2x2 elements, 4 rows apart, to one plane after another.
    /// let frames = compute.alloc_from_slice(&(0..12).collect::<Vec<u8>>())?;
    /// let from = Layout3::packed(2, 2, 2).with_plane_rows(4);
    /// let mut host = compute.adopt(gpu.pinned_from(&[0; 8])?)?;
    /// compute.copy_rows_to_host(&frames, from, &mut host, Layout3::packed(2, 2, 2))?;
    /// let host = compute.release(host)?.synchronize()?;
    /// assert_eq!(*host, [0, 1, 2, 3, 8, 9, 10, 11]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[track_caller]
    pub fn copy_rows_to_host<T: Element, P: ReadBy<S>, Q: WriteBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        from: impl Into<Layout3>,
        destination: &mut PinnedSlice<T, Q>,
        to: impl Into<Layout3>,
    ) -> Result<()> {
        let call = self.call("Stream::copy_rows_to_host");
        let lens = (source.len(), destination.len());
        match Rows::checked::<T>(&call, (from.into(), to.into()), lens)? {
            Some(rows) => rows.copy_to_host(&call, &source[rows.read()], &mut destination[rows.written()]),
            None => Ok(()),
        }
    }

    /// Copies rows to uninitialised device memory, packed, and so makes the buffer readable
    /// (`cuMemcpy2DAsync`, `cuMemcpy3DAsync`). Stream-ordered. The buffer has as many elements as
    /// the rows, so each element is written ([H39](crate::hazards#h39)).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::Layout`] and [`Error::Driver`]; the buffer is then
    /// freed.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::Layout2;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let frame = compute.alloc_from_slice(&[1, 2, 0, 3, 4, 0])?;
    /// let rows = Layout2::packed(2, 2).with_stride(3);
    /// let packed = compute.init_from_rows(compute.alloc_uninit::<i32>(4)?, &frame, rows)?;
    /// assert_eq!(compute.copy_to_vec(&packed)?, [1, 2, 3, 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_from_rows<T: Element, P: ReadBy<S>>(
        &self,
        mut buffer: DeviceBuffer<MaybeUninit<T>, S>,
        source: &DeviceSlice<T, P>,
        from: impl Into<Layout3>,
    ) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::init_from_rows");
        let from = from.into();
        let packed = Rows::covering(&call, from, buffer.len())?;
        let lens = (source.len(), buffer.len());
        if let Some(rows) = Rows::checked::<T>(&call, (from, packed), lens)? {
            rows.copy(&call, &source[rows.read()], &mut buffer)?;
        }
        // SAFETY: the packed rows are all elements of the buffer, and are written in this stream's
        // order.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies rows of pinned memory to uninitialised device memory, packed, and so makes the buffer
    /// readable (`cuMemcpy2DAsync`, `cuMemcpy3DAsync`). Stream-ordered. The buffer has as many
    /// elements as the rows ([H39](crate::hazards#h39)).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::Layout`] and [`Error::Driver`]; the buffer is then
    /// freed.
    ///
    /// The region of a frame goes up, and comes back into pinned memory:
    ///
    /// ```
    /// # cuda_rt::streams! { pub Copies; }
    /// use cuda_rt::Layout2;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let copies = gpu.stream::<Copies>()?;
    /// let frame: Vec<u32> = (0..8 * 4).collect();
    /// let frame = copies.adopt(gpu.pinned_from(&frame)?)?;
    /// let region = Layout2::packed(8, 4).region(2, 1, 3, 2);
    /// let tile = copies.init_from_host_rows(copies.alloc_uninit(6)?, &frame, region)?;
    ///
    /// let mut canvas = copies.alloc_zeroed::<u32>(8 * 4)?;
    /// copies.copy_rows_to_device(&frame, region, &mut canvas, region)?; // to the same place
    /// let host = copies.adopt(gpu.pinned_uninit(6)?)?;
    /// let host = copies.init_host_from_rows(host, &canvas, region)?;
    /// let host = copies.release(host)?.synchronize()?;
    /// assert_eq!(host[..], [10, 11, 12, 18, 19, 20]);
    /// assert_eq!(copies.copy_to_vec(&tile)?, host[..]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_from_host_rows<T: Element, P: ReadBy<S>>(
        &self,
        mut buffer: DeviceBuffer<MaybeUninit<T>, S>,
        source: &PinnedSlice<T, P>,
        from: impl Into<Layout3>,
    ) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::init_from_host_rows");
        let from = from.into();
        let packed = Rows::covering(&call, from, buffer.len())?;
        let lens = (source.len(), buffer.len());
        if let Some(rows) = Rows::checked::<T>(&call, (from, packed), lens)? {
            rows.copy_to_device(&call, &source[rows.read()], &mut buffer)?;
        }
        // SAFETY: as in `init_from_rows`.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies rows of device memory to uninitialised pinned memory, packed, and so makes the pinned
    /// buffer readable (`cuMemcpy2DAsync`, `cuMemcpy3DAsync`). Stream-ordered. The buffer has as
    /// many elements as the rows ([H39](crate::hazards#h39)).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::Layout`] and [`Error::Driver`]; the buffer then goes
    /// back to its pool.
    #[track_caller]
    pub fn init_host_from_rows<T: Element, P: ReadBy<S>>(
        &self,
        mut buffer: PinnedBuffer<MaybeUninit<T>, S>,
        source: &DeviceSlice<T, P>,
        from: impl Into<Layout3>,
    ) -> Result<PinnedBuffer<T, S>> {
        let call = self.call("Stream::init_host_from_rows");
        let from = from.into();
        let packed = Rows::covering(&call, from, buffer.len())?;
        let lens = (source.len(), buffer.len());
        if let Some(rows) = Rows::checked::<T>(&call, (from, packed), lens)? {
            rows.copy_to_host(&call, &source[rows.read()], &mut buffer)?;
        }
        // SAFETY: as in `init_from_rows`; the host reaches the buffer behind a wait.
        Ok(unsafe { buffer.assume_init() })
    }
}

/// The rows of a copy, for elements of one size.
///
/// # Invariants
/// ROW-COPY-1. `source` and `destination` are ranges of two slices. The rows of `extent` with the
/// pitch `from` lie in the first, from its start to its end, and with `to` in the second. No two
/// rows of a side overlap.
struct Rows {
    source: (usize, usize),
    destination: (usize, usize),
    from: Pitch,
    to: Pitch,
    extent: CopyExtent,
}

impl Rows {
    /// Checks both layouts against the lengths of their slices. `None` if there is nothing to copy.
    fn checked<T>(
        call: &Call<'_>,
        (from, to): (Layout3, Layout3),
        (source_len, destination_len): (usize, usize),
    ) -> Result<Option<Self>> {
        let refused = |why| Error::Layout {
            during: call.name(),
            why,
        };
        if from.size() != to.size() {
            return Err(refused(LayoutError::Size {
                source: from.size(),
                destination: to.size(),
            }));
        }
        let read = from.within(source_len, CopySide::Source).map_err(refused)?;
        let written = to
            .within(destination_len, CopySide::Destination)
            .map_err(refused)?;
        let element_bytes = size_of::<T>();
        if read.is_empty() || element_bytes == 0 {
            return Ok(None);
        }
        // ROW-COPY-1: both ranges were checked, and `within` refuses rows that overlap.
        Ok(Some(Self {
            source: (read.start, read.end),
            destination: (written.start, written.end),
            from: from.pitch(element_bytes),
            to: to.pitch(element_bytes),
            extent: from.extent(element_bytes),
        }))
    }

    /// The packed layout of the rows, if it covers a buffer of `len` elements.
    fn covering(call: &Call<'_>, from: Layout3, len: usize) -> Result<Layout3> {
        let [width, height, depth] = from.size();
        let elements = from.elements();
        if elements != Some(len) {
            return Err(Error::LengthMismatch {
                during: call.name(),
                source_len: elements.unwrap_or(usize::MAX),
                destination_len: len,
            });
        }
        Ok(Layout3::packed(width, height, depth))
    }

    fn read(&self) -> Range<usize> {
        self.source.0..self.source.1
    }

    fn written(&self) -> Range<usize> {
        self.destination.0..self.destination.1
    }

    /// Copies between the ranges that [`read`](Self::read) and [`written`](Self::written) name.
    fn copy<T, U, P, Q>(
        &self,
        call: &Call<'_>,
        source: &DeviceSlice<T, P>,
        destination: &mut DeviceSlice<U, Q>,
    ) -> Result<()> {
        let (to, from) = ((destination.address(), self.to), (source.address(), self.from));
        call.enqueue(Kind::Copy, "copy", self.extent.bytes(), move |driver, at| {
            // SAFETY: as in `copy_to_host`; a shared and a unique borrow do not overlap.
            unsafe { driver.copy_rows(to, from, self.extent, at) }
        })
    }

    fn copy_to_device<T, U, P, Q>(
        &self,
        call: &Call<'_>,
        source: &PinnedSlice<T, P>,
        destination: &mut DeviceSlice<U, Q>,
    ) -> Result<()> {
        let (to, from) = ((destination.address(), self.to), (source.address(), self.from));
        let bytes = self.extent.bytes();
        call.enqueue(Kind::CopyToDevice, "copy to device", bytes, move |driver, at| {
            // SAFETY: as in `copy_to_host`.
            unsafe { driver.copy_rows_to_device(to, from, self.extent, at) }
        })
    }

    fn copy_to_host<T, U, P, Q>(
        &self,
        call: &Call<'_>,
        source: &DeviceSlice<T, P>,
        destination: &mut PinnedSlice<U, Q>,
    ) -> Result<()> {
        let (to, from) = ((destination.address(), self.to), (source.address(), self.from));
        call.enqueue(
            Kind::CopyToHost,
            "copy to host",
            self.extent.bytes(),
            |driver, at| {
                // SAFETY: ROW-COPY-1: the rows lie in the two slices. The slices belong to this
                // stream's order (`ReadBy`, `WriteBy`), are live (SLICE-1, PINNED-SLICE-1), and
                // their owners free them in stream order.
                unsafe { driver.copy_rows_to_host(to, from, self.extent, at) }
            },
        )
    }
}
