//! Buffers that become a run-time number of parts, and one buffer again.

use super::{DeviceBuffer, PinnedBuffer};
use crate::error::{Error, Refused, Result};

macro_rules! many_parts {
    ($($buffer:ident, $example:literal;)*) => { $(
        impl<T, P> $buffer<T, P> {
            /// Splits the buffer into `parts` parts, in order, as [`split_off`](Self::split_off)
            /// does. The parts have equal lengths if `parts` divides the length; otherwise the
            /// first parts have one element more. No GPU work.
            ///
            /// A `Vec` of parts is a bundle: it can be released and acquired as a whole, and
            /// [`Handoff::split`](crate::Handoff::split) makes one handoff of each part.
            /// [`join_all`](Self::join_all) makes one buffer of the parts again.
            ///
            /// # Hazards prevented
            /// [H11](crate::hazards#h11) (the parts do not overlap), [H21](crate::hazards#h21).
            ///
            /// # Panics
            /// If `parts` is 0.
            ///
            /// ```
            /// # cuda_rt::streams! { pub Compute; }
            /// # let gpu = cuda_rt::Device::open_or_simulate()?;
            /// # let compute = gpu.stream::<Compute>()?;
            #[doc = $example]
            /// let parts = buffer.split_into(3);
            /// assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [4, 3, 3]);
            #[doc = concat!("let whole = cuda_rt::", stringify!($buffer), "::join_all(parts)?;")]
            /// assert_eq!(whole.len(), 10);
            /// # Ok::<(), cuda_rt::Error>(())
            /// ```
            #[track_caller]
            pub fn split_into(self, parts: usize) -> Vec<Self> {
                assert!(parts != 0, "a buffer is split into 0 parts");
                let (each, longer) = (self.len() / parts, self.len() % parts);
                self.split_by(parts, |part| each + usize::from(part < longer))
            }

            /// Splits the buffer into parts of `chunk_len` elements, in order; the last part may be
            /// shorter. An empty buffer becomes no part. As [`split_into`](Self::split_into)
            /// otherwise.
            ///
            /// # Panics
            /// If `chunk_len` is 0.
            ///
            /// ```
            /// # cuda_rt::streams! { pub Compute; pub Download; }
            /// # let gpu = cuda_rt::Device::open_or_simulate()?;
            /// # let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
            /// let frames = compute.alloc_from_slice(&[1_u32, 2, 3, 4, 5])?.into_chunks(2);
            /// let lens: Vec<usize> = frames.iter().map(|frame| frame.len()).collect();
            /// assert_eq!(lens, [2, 2, 1]);
            ///
            /// // Each part moves alone: the first to another stream.
            /// let mut frames = frames.into_iter();
            /// let first = frames.next().expect("there are three");
            /// let first = download.acquire(compute.release(first)?)?;
            /// assert_eq!(download.copy_to_vec(&first)?, [1, 2]);
            /// let first = compute.acquire(download.release(first)?)?;
            /// let parts = [first].into_iter().chain(frames).collect();
            /// let whole = cuda_rt::DeviceBuffer::join_all(parts)?;
            /// assert_eq!(whole.len(), 5);
            ///
            /// // Pinned memory has the same parts.
            /// let parts = gpu.pinned_from(&[1_u8; 5])?.into_chunks(4);
            /// assert_eq!(cuda_rt::PinnedBuffer::join_all(parts)?.len(), 5);
            /// # Ok::<(), cuda_rt::Error>(())
            /// ```
            #[track_caller]
            pub fn into_chunks(self, chunk_len: usize) -> Vec<Self> {
                assert!(chunk_len != 0, "chunks of 0 elements");
                let len = self.len();
                match len.div_ceil(chunk_len) {
                    0 => Vec::new(),
                    chunks => self.split_by(chunks, |chunk| chunk_len.min(len - chunk * chunk_len)),
                }
            }

            /// Splits the buffer into `parts` parts, at least one. The lengths add up to that of
            /// the buffer.
            fn split_by(mut self, parts: usize, len_of: impl Fn(usize) -> usize) -> Vec<Self> {
                let mut split = Vec::with_capacity(parts);
                for part in 0..parts - 1 {
                    let rest = self.split_off(len_of(part));
                    split.push(std::mem::replace(&mut self, rest));
                }
                split.push(self);
                split
            }

            /// Joins adjacent parts of one block, in order: each begins where the part before it
            /// ends. No GPU work.
            ///
            /// # Errors
            /// [`Error::PartNotAdjacent`] names the first part that does not follow. All parts are
            /// then dropped, in stream order; [`try_join_all`](Self::try_join_all) gives them back.
            pub fn join_all(parts: Vec<Self>) -> Result<Self> {
                Ok(Self::try_join_all(parts)?)
            }

            /// Like [`join_all`](Self::join_all), but gives all parts back if they do not follow
            /// each other.
            ///
            /// # Errors
            /// [`Refused`] with all parts, as they were.
            pub fn try_join_all(parts: Vec<Self>) -> Result<Self, Refused<Vec<Self>>> {
                // All pairs are compared before the first is joined.
                let apart = parts.windows(2).position(|pair| !pair[0].is_before(&pair[1]));
                let len = parts.iter().try_fold(0usize, |len, part| len.checked_add(part.len()));
                let index = match apart {
                    Some(before) => before + 1,
                    // Elements of no size may be more than a number can tell.
                    None if len.is_none() => parts.len() - 1,
                    None if parts.is_empty() => 0,
                    None => {
                        let mut parts = parts.into_iter();
                        let first = parts.next();
                        let joined = parts.fold(first, |joined, part| joined?.try_join(part).ok());
                        return Ok(joined.unwrap_or_else(|| unreachable!("compared above")));
                    }
                };
                Err(Refused {
                    error: Error::PartNotAdjacent {
                        during: concat!(stringify!($buffer), "::join_all"),
                        index,
                    },
                    value: parts,
                })
            }
        }
    )* };
}

many_parts! {
    DeviceBuffer, "let buffer = compute.alloc_zeroed::<f32>(10)?;";
    PinnedBuffer, "let buffer = gpu.pinned::<f32>(10)?;";
}
