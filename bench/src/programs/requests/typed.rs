//! With `StreamPool`: each request asks for a free stream.

use cuda_rt::{Device, DeviceBuffer, Grid1, Idle, Live, PinnedBuffer, Result, StreamPool};
use device_kernels::scale;

use super::{FACTOR, LEN, compare, fill, serve};
use crate::rounds::{Check, Outcome, Round, Way};

/// `None` only while a request is served.
type Client<D> = Option<(
    PinnedBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    PinnedBuffer<f32, Idle<D>>,
)>;

pub(in super::super) struct Typed<D: Live> {
    pool: StreamPool<D>,
    clients: Vec<Client<D>>,
}

impl<D: Live> Typed<D> {
    pub(in super::super) fn new(gpu: &Device<D>, threads: usize, streams: usize) -> Result<Self> {
        let pool = gpu.stream_pool(streams)?;
        let client = |_| {
            let ready = pool.with(|stream| {
                let input = stream.adopt(gpu.pinned(LEN)?)?;
                let (uploaded, scaled) = (stream.alloc_zeroed(LEN)?, stream.alloc_zeroed(LEN)?);
                stream.release((input, uploaded, scaled, stream.adopt(gpu.pinned(LEN)?)?))
            });
            ready?.synchronize().map(Some)
        };
        let clients = (0..threads).map(client).collect::<Result<_>>()?;
        Ok(Self { pool, clients })
    }
}

impl<D: Live> Way for Typed<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let pool = &self.pool;
        let prepare = || Ok(());
        serve(&mut self.clients, items, prepare, |client, request, thread| {
            let mut memory = client.take().ok_or("the memory comes back")?;
            fill(check, request, thread, &mut memory.0);
            let pending = pool.with(|stream| {
                let (input, mut uploaded, mut scaled, mut output) = stream.adopt(memory)?;
                stream.copy_to_device(&input, &mut uploaded)?;
                scale(stream, Grid1::covering(LEN), &uploaded, &mut scaled, FACTOR)?;
                stream.copy_to_host(&scaled, &mut output)?;
                stream.release((input, uploaded, scaled, output))
            });
            let memory = pending?.synchronize()?;
            let compared = compare(check, request, thread, &memory.3);
            *client = Some(memory);
            compared
        })
    }
}
