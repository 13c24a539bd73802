//! [`StreamPool`]: streams whose number is known only at run time.

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
// SAFETY: a pool of a `Device<D>` creates its streams on that device.
unsafe impl<D: DeviceTag> Place for Pooled<'_, D> {
    type Device = D;
}
// SAFETY: `StreamPool::with` makes one stream for a closure that is generic over `'id`, so no other
// stream has the same brand.
unsafe impl<D: DeviceTag> StreamTag for Pooled<'_, D> {}

/// Streams for schedulers that do not know at compile time how many they need, and do not care
/// which stream they get. To hold a stream, or what is on it, in a struct:
/// [`AnyStream`](crate::AnyStream).
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
    /// Each stream, and the number of closures that are using it.
    streams: Mutex<Vec<(StreamRef, usize)>>,
    /// The number of closures that were given a stream.
    calls: AtomicUsize,
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

    /// Like [`stream_pool`](Self::stream_pool), with streams of the given `priority`. Waiting
    /// blocks of a more urgent kernel start before waiting blocks of a less urgent kernel. Running
    /// blocks are not stopped, and the priority does not affect copies.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// ```
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// use cuda_rt::Priority;
    ///
    /// let urgent = gpu.stream_pool_with_priority(2, Priority::High)?;
    /// let sums = urgent.with(|stream| stream.release(stream.alloc_from_slice(&[1_u32, 2])?))?;
    /// // What leaves a closure is a handoff, which any stream can acquire.
    /// let sums = urgent.with(|stream| {
    ///     let sums = stream.acquire(sums)?;
    ///     stream.copy_to_vec(&sums)
    /// })?;
    /// assert_eq!(sums, [1, 2]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn stream_pool_with_priority(&self, streams: usize, priority: Priority) -> Result<StreamPool<D>> {
        let create = |_| self.core().anonymous_stream(priority).map(|at| (at, 0));
        let streams: Vec<_> = (0..streams.max(1))
            .map(create)
            .collect::<Result<_, _>>()
            .during("Device::stream_pool")?;
        Ok(StreamPool {
            device: self.clone(),
            streams: Mutex::new(streams),
            calls: AtomicUsize::new(0),
        })
    }
}

/// The use of one stream by one closure. Dropping it lowers the stream's count, also after a panic.
struct Use<'a>(&'a Mutex<Vec<(StreamRef, usize)>>, usize);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[self.1].1 -= 1;
    }
}

impl<D: Live> StreamPool<D> {
    /// Runs `body` with the stream that the fewest closures are using. Equally used streams take
    /// turns: a closure that only enqueues ends long before its work, and the next closure should
    /// get another stream. Bundles come in and leave as [`Handoff`](crate::Handoff)s, which carry
    /// no brand; buffers and the stream itself cannot leave ([H23](crate::hazards#h23)).
    ///
    /// When every stream is in use, two closures share one. Their work is then ordered, which costs
    /// overlap only: the stream itself orders a handoff between two of its brands.
    ///
    /// # Errors
    /// The errors of `body`.
    pub fn with<T, E>(
        &self,
        body: impl for<'id> FnOnce(&Stream<Pooled<'id, D>>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (at, _in_use) = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, first) = (streams.len(), self.calls.fetch_add(1, Ordering::Relaxed));
            let uses = |index: &usize| streams[*index].1;
            // `min_by_key` takes the first of equals: the stream whose turn it is.
            let from_first = (0..count).map(|offset| (first % count + offset) % count);
            let index = from_first.min_by_key(uses).unwrap_or(0);
            streams[index].1 += 1;
            (streams[index].0, Use(&self.streams, index))
        };
        body(&Stream::from_parts(at, self.device.core().clone()))
    }
}
