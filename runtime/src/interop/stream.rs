//! Streams that someone else owns.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Device;
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::stream::Stream;
use crate::tag::{DeviceTag, Gpu, Live, Place, StreamTag};
use cuda_rt_driver::{Driver, RawStream};

/// A stream that someone else owns, for one closure; the brand `'id` is fresh at each call.
pub struct Adopted<'id, D = Gpu<0>>(PhantomData<(fn(&'id ()) -> &'id (), fn(D) -> D)>);
// SAFETY: `Device::adopt_stream` is given a stream of `D`.
unsafe impl<D: DeviceTag> Place for Adopted<'_, D> {
    type Device = D;
}
// SAFETY: `Device::adopt_stream` makes one stream for a closure that is generic over `'id`, so no
// other has the same brand.
unsafe impl<D: DeviceTag> StreamTag for Adopted<'_, D> {}

impl<D: Live> Device<D> {
    /// Runs `body` with a stream that someone else owns: PyTorch's, another crate's, another
    /// library's. Calls nothing.
    ///
    /// Bundles come in and leave as [`Handoff`](crate::Handoff)s; buffers and the stream itself
    /// cannot leave (H23), so that nothing of ours uses it after its owner may destroy it. Each
    /// adoption is another stream to us, also of one CUDA stream: going from one to the next costs
    /// an event.
    ///
    /// # Safety
    /// 1. `raw` is a stream of this device's primary context, is not the default stream, and is not
    ///    destroyed until `body` returns.
    /// 2. No capture is going on there, and none begins but by [`Stream::capture`].
    ///
    /// Work of its owner there needs no care: it is in the stream's order as ours is.
    ///
    /// # Errors
    /// Those of `body`.
    pub unsafe fn adopt_stream<T, E>(
        &self,
        raw: RawStream,
        body: impl for<'id> FnOnce(&Stream<Adopted<'id, D>>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let id = StreamId::adopted();
        body(&Stream::from_parts(
            StreamRef { raw, id },
            Arc::clone(self.core()),
        ))
    }
}

impl<D> Device<D> {
    /// The driver, for calls on raw handles: what changes anything there is `unsafe`, or only
    /// creates.
    pub fn driver(&self) -> &dyn Driver {
        self.core().driver()
    }
}
