//! Copies between the device and ordinary host memory, through pieces of pinned memory.

use std::ops::Range;

use crate::error::Result;
use crate::memory::{DeviceSlice, Element, PinnedBuffer};
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

/// A piece whose copy is enqueued, and the range of elements that it holds.
type Pending<T, D> = (Handoff<PinnedBuffer<T, Idle<D>>>, Range<usize>);

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
    /// H13, H15, H20: no copy in flight reaches borrowed memory, even if an error ends the copy
    /// half-way.
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
        same_length::<T>(source.len(), destination.len(), "Stream::copy_to_slice")?;
        let gpu = self.device();
        let mut land = |(handoff, range): Pending<T, S::Device>| -> Result<PinnedBuffer<T, Idle<S::Device>>> {
            let piece = handoff.synchronize()?;
            let len = range.len();
            destination[range].copy_from_slice(&piece[..len]);
            Ok(piece)
        };
        let mut pending: [Option<Pending<T, S::Device>>; PIECES] = [const { None }; PIECES];
        for (index, range) in pieces::<T>(source.len()).enumerate() {
            let piece = match pending[index % PIECES].take() {
                Some(before) => land(before)?,
                None => gpu.pinned(piece_len::<T>(source.len()))?,
            };
            let mut piece = self.adopt(piece)?;
            self.copy_to_host(&source[range.clone()], &mut piece[..range.len()])?;
            pending[index % PIECES] = Some((self.release(piece)?, range));
        }
        // The last two pieces, in either order.
        pending
            .into_iter()
            .flatten()
            .try_for_each(|last| land(last).map(drop))
    }

    /// Copies ordinary memory of the host to the device. **Blocks the host** until the last piece
    /// of `source` was copied to pinned memory. The copies to the device are stream-ordered. The
    /// pieces are as in [`copy_to_slice`](Self::copy_to_slice).
    ///
    /// A program that makes its data in pinned memory ([`Device::pinned`](crate::Device::pinned))
    /// and calls [`copy_to_device`](Self::copy_to_device) saves a copy and the wait.
    ///
    /// # Hazards prevented
    /// H14, H15, H20: no copy in flight reads borrowed memory.
    ///
    /// # Errors
    /// As [`copy_to_slice`](Self::copy_to_slice); `destination` may then hold a part of the data.
    #[track_caller]
    pub fn copy_from_slice<T: Element, Q: WriteBy<S>>(
        &self,
        source: &[T],
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<()> {
        same_length::<T>(source.len(), destination.len(), "Stream::copy_from_slice")?;
        let gpu = self.device();
        let mut pending: [Option<Handoff<PinnedBuffer<T, Idle<S::Device>>>>; PIECES] =
            [const { None }; PIECES];
        for (index, range) in pieces::<T>(source.len()).enumerate() {
            let mut piece = match pending[index % PIECES].take() {
                Some(before) => before.synchronize()?,
                None => gpu.pinned(piece_len::<T>(source.len()))?,
            };
            piece[..range.len()].copy_from_slice(&source[range.clone()]);
            let piece = self.adopt(piece)?;
            self.copy_to_device(&piece[..range.len()], &mut destination[range])?;
            pending[index % PIECES] = Some(self.release(piece)?);
        }
        Ok(())
    }
}
