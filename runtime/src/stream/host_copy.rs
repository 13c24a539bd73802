//! Copies from and to ordinary memory, through pinned memory of ours.

use std::ops::Range;

use crate::error::Result;
use crate::memory::{DeviceSlice, Element, PinnedBuffer};
use crate::order::handoff::Handoff;
use crate::stream::{Stream, same_length};
use crate::tag::{Idle, Live, ReadBy, StreamTag, WriteBy};

/// Bytes of pinned memory to a piece: large enough that its latency does not count, small enough
/// that two of them are no burden.
const PIECE_BYTES: usize = 4 << 20;
/// One is copied by the GPU, the other by the host.
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

/// A piece whose copy is enqueued.
type Pending<T, D> = (Handoff<PinnedBuffer<T, Idle<D>>>, Range<usize>);

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Copies device memory to ordinary memory of the host: a `Vec`, a slice, the stack. **Blocks
    /// the host** until all earlier work of the stream and the copy are over; the data lies in
    /// `destination` when this returns.
    ///
    /// It goes through two pieces of the device's pinned memory, of 4 MiB at most, so that the GPU
    /// copies one while the host copies the other. For results that leave while the GPU works on,
    /// use [`copy_to_host`](Self::copy_to_host) and a handoff.
    ///
    /// # Hazards prevented
    /// H13, H15, H20: no copy is in flight to memory that is only borrowed, also when an error ends
    /// it half-way.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), before anything is enqueued;
    /// [`Error::Driver`](crate::Error::Driver), and those of
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
        for (turn, range) in pieces::<T>(source.len()).enumerate() {
            let piece = match pending[turn % PIECES].take() {
                Some(before) => land(before)?,
                None => gpu.pinned(piece_len::<T>(source.len()))?,
            };
            let mut piece = self.adopt(piece)?;
            self.copy_to_host(&source[range.clone()], &mut piece[..range.len()])?;
            pending[turn % PIECES] = Some((self.release(piece)?, range));
        }
        // The last two, in either order.
        pending
            .into_iter()
            .flatten()
            .try_for_each(|last| land(last).map(drop))
    }

    /// Copies ordinary memory of the host to the device. **Blocks the host** until `source` was
    /// read, which is when its last piece was copied to pinned memory; what arrives on the device
    /// is stream-ordered. Pieces as in [`copy_to_slice`](Self::copy_to_slice).
    ///
    /// For data that can be made in pinned memory to begin with,
    /// [`Device::pinned`](crate::Device::pinned) and [`copy_to_device`](Self::copy_to_device) save
    /// a copy and the wait.
    ///
    /// # Hazards prevented
    /// H14, H15, H20: as there.
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
        for (turn, range) in pieces::<T>(source.len()).enumerate() {
            let mut piece = match pending[turn % PIECES].take() {
                Some(before) => before.synchronize()?,
                None => gpu.pinned(piece_len::<T>(source.len()))?,
            };
            piece[..range.len()].copy_from_slice(&source[range.clone()]);
            let piece = self.adopt(piece)?;
            self.copy_to_device(&piece[..range.len()], &mut destination[range])?;
            pending[turn % PIECES] = Some(self.release(piece)?);
        }
        Ok(())
    }
}
