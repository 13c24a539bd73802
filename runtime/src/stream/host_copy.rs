//! Copies between the device and ordinary host memory, through pieces of pinned memory.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::Result;
use crate::memory::{DeviceBuffer, DeviceSlice, Element, PinnedBuffer};
use crate::order::handoff::Handoff;
use crate::stream::{Stream, same_length};
use crate::tag::{Idle, Live, ReadBy, StreamTag, WriteBy};

/// The size of a piece of pinned memory, in bytes. It is large enough to hide the latency of a
/// copy, and small enough that two pieces cost little memory.
const PIECE_BYTES: usize = 4 << 20;
/// The GPU copies one piece while the host copies the other.
const PIECES: usize = 2;

fn pieces<T>(len: usize) -> impl Iterator<Item = Range<usize>> {
    let most = piece_len::<T>(len);
    (0..len)
        .step_by(most)
        .map(move |start| start..len.min(start + most))
}

fn piece_len<T>(len: usize) -> usize {
    (PIECE_BYTES / size_of::<T>().max(1)).clamp(1, len.max(1))
}

/// A piece of pinned memory. It is not zeroed, because each use writes it before it reads it.
type Piece<T, D> = PinnedBuffer<MaybeUninit<T>, Idle<D>>;

/// A piece whose copy is enqueued, and the number of elements that are copied to its start.
type Pending<T, D> = (Handoff<Piece<T, D>>, usize);

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Copies device memory to ordinary memory of the host: a `Vec`, a slice, the stack. **Blocks
    /// the host** until all earlier work of the stream and the copy are over; the data lies in
    /// `destination` when this returns.
    ///
    /// The data goes through two pieces of the device's pinned memory, each of 4 MiB at most: the
    /// GPU copies one while the host copies the other. To copy a result while the GPU does other
    /// work, use [`copy_to_host`](Self::copy_to_host) and a handoff.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H15](crate::hazards#h15), [H20](crate::hazards#h20): no copy in
    /// flight reaches borrowed memory, even if an error ends the copy half-way.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), before anything is enqueued.
    /// [`Error::Driver`](crate::Error::Driver) and the errors of
    /// [`Device::pinned`](crate::Device::pinned): `destination` may then hold a part of the data.
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut squares = compute.alloc_zeroed::<u32>(4)?;
    /// compute.copy_from_slice(&[0, 1, 4, 9], &mut squares)?;
    /// let mut back = [0; 2];
    /// compute.copy_to_slice(&squares[2..], &mut back)?;
    /// assert_eq!(back, [4, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_to_slice<T: Element, P: ReadBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        destination: &mut [T],
    ) -> Result<()> {
        const CALL: &str = "Stream::copy_to_slice";
        same_length::<T>(source.len(), destination.len(), CALL)?;
        let mut rest = destination;
        let copied = self.download(source, |piece| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(piece.len());
            now.copy_from_slice(piece);
            rest = later;
        });
        copied.map_err(|error| error.of_call(CALL))
    }

    /// Copies device memory to a new `Vec`. **Blocks the host**, as
    /// [`copy_to_slice`](Self::copy_to_slice) does.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H15](crate::hazards#h15), [H20](crate::hazards#h20).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) and the errors of
    /// [`Device::pinned`](crate::Device::pinned).
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let squares = compute.alloc_from_slice(&[0, 1, 4, 9])?;
    /// assert_eq!(compute.copy_to_vec(&squares[1..])?, [1, 4, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[doc(alias = "clone_dtoh")]
    #[doc(alias = "to_vec")]
    #[track_caller]
    pub fn copy_to_vec<T: Element, P: ReadBy<S>>(&self, source: &DeviceSlice<T, P>) -> Result<Vec<T>> {
        let mut copy = Vec::with_capacity(source.len());
        self.download(source, |piece| copy.extend_from_slice(piece))
            .map_err(|error| error.of_call("Stream::copy_to_vec"))?;
        Ok(copy)
    }

    /// Copies ordinary memory of the host to the device. **Blocks the host** until the last piece
    /// of `source` was copied to pinned memory. The copies to the device are stream-ordered. The
    /// pieces are as in [`copy_to_slice`](Self::copy_to_slice).
    ///
    /// A program that makes its data in pinned memory ([`Device::pinned`](crate::Device::pinned))
    /// and calls [`copy_to_device`](Self::copy_to_device) saves a copy and the wait.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), [H15](crate::hazards#h15), [H20](crate::hazards#h20): no copy in
    /// flight reads borrowed memory.
    ///
    /// # Errors
    /// As [`copy_to_slice`](Self::copy_to_slice); `destination` may then hold a part of the data.
    #[track_caller]
    pub fn copy_from_slice<T: Element, Q: WriteBy<S>>(
        &self,
        source: &[T],
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<()> {
        const CALL: &str = "Stream::copy_from_slice";
        same_length::<T>(source.len(), destination.len(), CALL)?;
        // SAFETY: `upload` writes values of `T` only.
        self.upload(source, unsafe { destination.as_uninit_mut() })
            .map_err(|error| error.of_call(CALL))
    }

    /// Copies ordinary memory of the host to uninitialised device memory, and so makes the buffer
    /// readable. **Blocks the host**, as [`copy_from_slice`](Self::copy_from_slice) does.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), [H15](crate::hazards#h15), [H20](crate::hazards#h20),
    /// [H39](crate::hazards#h39).
    ///
    /// # Errors
    /// As [`copy_from_slice`](Self::copy_from_slice); the buffer is then freed.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let buffer = compute.alloc_uninit::<u32>(3)?;
    /// let buffer = compute.init_from_slice(buffer, &[1, 2, 3])?; // readable from now on
    /// assert_eq!(compute.copy_to_vec(&buffer)?, [1, 2, 3]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_from_slice<T: Element>(
        &self,
        mut buffer: DeviceBuffer<MaybeUninit<T>, S>,
        source: &[T],
    ) -> Result<DeviceBuffer<T, S>> {
        const CALL: &str = "Stream::init_from_slice";
        same_length::<T>(source.len(), buffer.len(), CALL)?;
        self.upload(source, &mut buffer)
            .map_err(|error| error.of_call(CALL))?;
        // SAFETY: `upload` enqueued copies to every element, in this stream's order.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Allocates device memory, as [`alloc_uninit`](Self::alloc_uninit) does, and copies ordinary
    /// memory of the host to it (`cuMemcpyHtoDAsync`). **Blocks the host**, as
    /// [`copy_from_slice`](Self::copy_from_slice) does. The memory is not zeroed first.
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14), [H15](crate::hazards#h15), [H20](crate::hazards#h20).
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge), [`Error::Driver`](crate::Error::Driver) and the
    /// errors of [`Device::pinned`](crate::Device::pinned).
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let squares = compute.alloc_from_slice(&[0, 1, 4, 9])?; // DeviceBuffer<i32, Compute>
    /// assert_eq!(squares.len(), 4);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[doc(alias = "clone_htod")]
    #[doc(alias = "upload")]
    #[track_caller]
    pub fn alloc_from_slice<T: Element>(&self, source: &[T]) -> Result<DeviceBuffer<T, S>> {
        const CALL: &str = "Stream::alloc_from_slice";
        let buffer = self
            .alloc_uninit(source.len())
            .map_err(|error| error.of_call(CALL))?;
        self.init_from_slice(buffer, source)
            .map_err(|error| error.of_call(CALL))
    }

    /// Copies `source` to all of `destination`, which has the same length. The copies are enqueued
    /// when this returns without an error.
    #[track_caller]
    fn upload<T: Element, Q: WriteBy<S>>(
        &self,
        source: &[T],
        destination: &mut DeviceSlice<MaybeUninit<T>, Q>,
    ) -> Result<()> {
        let gpu = self.device();
        let mut pending: [Option<Handoff<Piece<T, S::Device>>>; PIECES] = [const { None }; PIECES];
        for (index, range) in pieces::<T>(source.len()).enumerate() {
            let mut piece = match pending[index % PIECES].take() {
                Some(before) => before.synchronize()?,
                None => gpu.pinned_uninit(piece_len::<T>(source.len()))?,
            };
            piece[..range.len()].copy_from_slice(as_uninit(&source[range.clone()]));
            let piece = self.adopt(piece)?;
            let (call, bytes) = (self.call("Stream::copy_to_device"), range.len() * size_of::<T>());
            let to = destination[range].address();
            // The piece's elements beyond `bytes` may never have been written. They are not copied.
            self.raw_copy_to_device(&call, to, piece.address(), bytes)?;
            pending[index % PIECES] = Some(self.release(piece)?);
        }
        Ok(())
    }

    /// Copies all of `source`, and calls `land` with each piece, in order.
    #[track_caller]
    fn download<T: Element, P: ReadBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        mut land: impl FnMut(&[T]),
    ) -> Result<()> {
        let gpu = self.device();
        let mut landed = |(handoff, len): Pending<T, S::Device>| -> Result<Piece<T, S::Device>> {
            let piece = handoff.synchronize()?;
            // SAFETY: the copy of `len` elements to the piece's start is over: `synchronize` waited
            // for it.
            land(unsafe { as_init(&piece[..len]) });
            Ok(piece)
        };
        let mut pending: [Option<Pending<T, S::Device>>; PIECES] = [const { None }; PIECES];
        let mut count = 0;
        for range in pieces::<T>(source.len()) {
            let piece = match pending[count % PIECES].take() {
                Some(before) => landed(before)?,
                None => gpu.pinned_uninit(piece_len::<T>(source.len()))?,
            };
            let len = range.len();
            let piece = self.adopt(piece)?;
            let (call, bytes) = (self.call("Stream::copy_to_host"), len * size_of::<T>());
            self.raw_copy_to_host(&call, piece.address(), source[range].address(), bytes)?;
            pending[count % PIECES] = Some((self.release(piece)?, len));
            count += 1;
        }
        // The last pieces, the older one first.
        for index in count..count + PIECES {
            if let Some(last) = pending[index % PIECES].take() {
                landed(last)?;
            }
        }
        Ok(())
    }
}

/// The same values, as they are written to memory that may hold nothing.
fn as_uninit<T: Element>(values: &[T]) -> &[MaybeUninit<T>] {
    // SAFETY: `MaybeUninit<T>` has the layout of `T`, and a value of `T` is a `MaybeUninit<T>`. The
    // result is only read.
    unsafe { &*(std::ptr::from_ref(values) as *const [MaybeUninit<T>]) }
}

/// # Safety
/// Each element was written.
unsafe fn as_init<T: Element>(values: &[MaybeUninit<T>]) -> &[T] {
    // SAFETY: `MaybeUninit<T>` has the layout of `T`, and each element was written by this
    // function's contract.
    unsafe { &*(std::ptr::from_ref(values) as *const [T]) }
}
