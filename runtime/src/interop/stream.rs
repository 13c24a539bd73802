//! [`Device::adopt_stream`]: streams of other libraries.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Device;
use crate::error::{During, Result};
use crate::order::stream_ref::StreamRef;
use crate::stream::Stream;
use crate::tag::{DeviceTag, Gpu, Live, Place, StreamTag};
use cuda_rt_driver::{Driver, RawStream};

/// A stream of another library, adopted for one closure. The brand `'id` is fresh at each call.
pub struct Adopted<'id, D = Gpu<0>>(PhantomData<(fn(&'id ()) -> &'id (), fn(D) -> D)>);
// SAFETY: by the contract of `Device::adopt_stream` the stream is of the device `D`.
unsafe impl<D: DeviceTag> Place for Adopted<'_, D> {
    type Device = D;
}
// SAFETY: `Device::adopt_stream` makes one stream for a closure that is generic over `'id`, so no
// other has the same brand.
unsafe impl<D: DeviceTag> StreamTag for Adopted<'_, D> {}

impl<D: Live> Device<D> {
    /// Runs `body` with a stream that another library owns, for example PyTorch or another crate.
    /// Calls nothing of the driver.
    ///
    /// Bundles come in and leave as [`Handoff`](crate::Handoff)s; buffers and the stream itself
    /// cannot leave ([H23](crate::hazards#h23)). So no value of this crate uses the stream after
    /// its owner may destroy it. Each adoption counts as a stream of its own, even of the same CUDA
    /// stream: a handoff from one adoption to the next costs an event.
    ///
    /// # Safety
    /// 1. `raw` is a stream of this device's primary context, is not the default stream, and is not
    ///    destroyed until `body` returns.
    /// 2. The stream is not being captured, and only [`Stream::capture`] begins a capture.
    ///
    /// The owner may enqueue its own work on the stream: all work is in the stream's order.
    ///
    /// # Errors
    /// The errors of `body`.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Theirs; pub Ours; }
    /// use cuda_rt::Error;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (theirs, ours) = (gpu.stream::<Theirs>()?, gpu.stream::<Ours>()?);
    /// let raw = theirs.raw(); // a stream of another library
    /// let input = ours.release(ours.alloc_from_slice(&[1_u32, 2, 3])?)?;
    /// // SAFETY: the stream is of this device, and lives on; nobody captures it.
    /// let sums = unsafe {
    ///     gpu.adopt_stream(raw, |stream| {
    ///         let mut input = stream.acquire(input)?; // in the order of their stream
    ///         stream.fill(&mut input[..1], 9)?;
    ///         stream.release(input) // what leaves the closure is a handoff
    ///     })
    /// }?;
    /// assert_eq!(ours.copy_to_vec(&ours.acquire(sums)?)?, [9, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub unsafe fn adopt_stream<T, E>(
        &self,
        raw: RawStream,
        body: impl for<'id> FnOnce(&Stream<Adopted<'id, D>>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        body(&Stream::from_parts(
            StreamRef::adopted(raw),
            Arc::clone(self.core()),
        ))
    }
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Makes this stream wait, on the GPU, for the present work of a stream that another library
    /// owns (`cuEventRecord` there, `cuStreamWaitEvent` here). The host does not wait.
    ///
    /// It orders work on memory that comes without a handoff, for example by the entry `stream` of
    /// Python's `__cuda_array_interface__`. Memory of this crate is handed over instead.
    ///
    /// # Safety
    /// `theirs` is a live stream of this device's primary context, or its legacy default stream
    /// (1), or the calling thread's default stream (2), and is not being captured.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); this stream then waits for nothing.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Theirs; pub Ours; }
    /// # use cuda_rt::DeviceBuffer;
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (theirs, ours) = (gpu.stream::<Theirs>()?, gpu.stream::<Ours>()?);
    /// let (address, len) = theirs.alloc_from_slice(&[1_u32, 2, 3])?.into_raw(); // their memory
    /// // SAFETY: the stream is of this device, and lives on.
    /// unsafe { ours.wait_for_foreign(theirs.raw()) }?;
    /// // SAFETY: from `into_raw` of this device, and written before the present end of `ours`.
    /// let memory = unsafe { DeviceBuffer::<u32, Ours>::from_raw(&ours, address, len) };
    /// assert_eq!(ours.copy_to_vec(&memory)?, [1, 2, 3]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub unsafe fn wait_for_foreign(&self, theirs: RawStream) -> Result<()> {
        const CALL: &str = "Stream::wait_for_foreign";
        let theirs = StreamRef::adopted(theirs);
        let recorded = self.core().events().record(theirs, false).during(CALL)?;
        recorded.wait_on(self.at()).during(CALL)
    }
}

impl<D: Live> Device<D> {
    /// The driver, for calls on raw handles. Its safe calls only ask or create. The device inside a
    /// capture gives none: its driver records.
    pub fn driver(&self) -> &dyn Driver {
        self.core().driver()
    }
}
