//! Streams whose number is known only at run time.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::{During, Result};
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Gpu, Live, Place, Priority, StreamTag};

/// A stream of a [`StreamPool`], for one closure; the brand `'id` is fresh at each call.
pub struct Pooled<'id, D = Gpu<0>>(PhantomData<(fn(&'id ()) -> &'id (), fn(D) -> D)>);
// SAFETY: the pool gives streams of `D`.
unsafe impl<D: DeviceTag> Place for Pooled<'_, D> {
    type Device = D;
}
// SAFETY: `StreamPool::with` makes one stream for a closure that is generic over `'id`, so no other
// has the same brand.
unsafe impl<D: DeviceTag> StreamTag for Pooled<'_, D> {}

/// Streams for schedulers that do not know at compile time how many they need.
///
/// ```
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let pool = gpu.stream_pool(4)?;
/// let results: Vec<_> = (0..8)
///     .map(|_| pool.with(|stream| stream.release(stream.alloc_zeroed::<f32>(64)?)))
///     .collect::<Result<_, _>>()?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamPool<D = Gpu<0>> {
    device: Device<D>,
    /// Each stream, and how many closures are using it.
    streams: Mutex<Vec<(StreamRef, usize)>>,
    /// How many closures were given a stream.
    turn: AtomicUsize,
}

impl<D: Live> Device<D> {
    /// A pool of `streams` streams (at least one; `cuStreamCreateWithPriority`) of the least urgent
    /// priority. They live as long as the device does.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn stream_pool(&self, streams: usize) -> Result<StreamPool<D>> {
        self.stream_pool_with_priority(streams, Priority::Low)
    }

    /// As [`stream_pool`](Self::stream_pool), for kernels as urgent as `priority` says: blocks of a
    /// more urgent kernel that wait are started before those of a less urgent one; what runs is not
    /// stopped, and copies are not ordered by it.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn stream_pool_with_priority(&self, streams: usize, priority: Priority) -> Result<StreamPool<D>> {
        let create = |_| self.core().anonymous_stream(priority).map(|at| (at, 0));
        let streams: Vec<_> = (0..streams.max(1))
            .map(create)
            .collect::<Result<_, _>>()
            .during("Device::stream_pool")?;
        Ok(StreamPool {
            device: self.clone(),
            streams: Mutex::new(streams),
            turn: AtomicUsize::new(0),
        })
    }
}

/// Counts the closure out again, also after a panic.
struct Use<'a>(&'a Mutex<Vec<(StreamRef, usize)>>, usize);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[self.1].1 -= 1;
    }
}

impl<D: Live> StreamPool<D> {
    /// Runs `body` with the stream that the fewest closures are using, taking turns: a closure that
    /// only enqueues is over long before its work, so that each closure gets another stream where
    /// all are free. Bundles come in and leave as [`Handoff`](crate::Handoff)s, which carry no
    /// brand; buffers and the stream itself cannot leave (H23).
    ///
    /// When every stream is in use two closures share one: their work is then ordered, which costs
    /// overlap and nothing else, for a handoff between two brands of one stream is ordered by the
    /// stream itself.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn with<T, E>(
        &self,
        body: impl for<'id> FnOnce(&Stream<Pooled<'id, D>>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (at, _in_use) = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, turn) = (streams.len(), self.turn.fetch_add(1, Ordering::Relaxed));
            let uses = |index: &usize| streams[*index].1;
            // Of several the first, which is the one whose turn it is.
            let in_turn = (0..count).map(|next| (turn % count + next) % count);
            let index = in_turn.min_by_key(uses).unwrap_or(0);
            streams[index].1 += 1;
            (streams[index].0, Use(&self.streams, index))
        };
        body(&Stream::from_parts(at, self.device.core().clone()))
    }
}
