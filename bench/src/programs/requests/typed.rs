//! With streams of run time, one for each thread or shared, as the raw way has them; and with
//! `StreamPool`, which chooses a stream for each request.

use cuda_rt::{
    AnyStream, Device, DeviceBuffer, Grid1, Handoff, Idle, Live, PinnedBuffer, Priority, Result, Stream,
    StreamPool, StreamTag,
};
use device_kernels::scale;

use super::{FACTOR, LEN, compare, fill, serve};
use crate::rounds::{Check, Outcome, Round, Way};

type Memory<D> = (
    PinnedBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    PinnedBuffer<f32, Idle<D>>,
);

/// `None` only while a request is served.
type Client<D> = Option<Memory<D>>;

fn client<D: Live>(gpu: &Device<D>, stream: &AnyStream) -> Result<Client<D>> {
    let ready = stream.run_on(gpu, |stream| {
        let input = stream.adopt(gpu.pinned(LEN)?)?;
        let (uploaded, scaled) = (stream.alloc_zeroed(LEN)?, stream.alloc_zeroed(LEN)?);
        stream.release((input, uploaded, scaled, stream.adopt(gpu.pinned(LEN)?)?))
    });
    ready??.synchronize().map(Some)
}

/// Enqueues a request.
fn enqueue<S: StreamTag>(stream: &Stream<S>, memory: Memory<S::Device>) -> Result<Handoff<Memory<S::Device>>>
where
    S::Device: Live,
{
    let (input, mut uploaded, mut scaled, mut output) = stream.adopt(memory)?;
    stream.copy_to_device(&input, &mut uploaded)?;
    scale(stream, Grid1::covering(LEN), &uploaded, &mut scaled, FACTOR)?;
    stream.copy_to_host(&scaled, &mut output)?;
    stream.release((input, uploaded, scaled, output))
}

pub(in super::super) struct OnStreams<D: Live> {
    gpu: Device<D>,
    streams: Vec<AnyStream>,
    clients: Vec<Client<D>>,
}

impl<D: Live> OnStreams<D> {
    pub(in super::super) fn new(gpu: &Device<D>, threads: usize, streams: usize) -> Result<Self> {
        let stream = |at| gpu.create_stream(&format!("stream {at}"), Priority::Low);
        let streams = (0..streams).map(stream).collect::<Result<Vec<_>>>()?;
        let clients = (0..threads).map(|thread| client(gpu, &streams[thread % streams.len()]));
        Ok(Self {
            gpu: gpu.clone(),
            clients: clients.collect::<Result<_>>()?,
            streams,
        })
    }
}

impl<D: Live> Way for OnStreams<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let (gpu, streams) = (&self.gpu, &self.streams);
        let prepare = || Ok(());
        serve(&mut self.clients, items, prepare, |client, request, thread| {
            let mut memory = client.take().ok_or("the memory comes back")?;
            fill(check, request, thread, &mut memory.0);
            let stream = &streams[thread % streams.len()];
            let memory = stream.run_on(gpu, |stream| enqueue(stream, memory))??;
            let memory = client.insert(memory.synchronize()?);
            compare(check, request, thread, &memory.3)
        })
    }
}

pub(in super::super) struct OnPool<D: Live> {
    pool: StreamPool<D>,
    clients: Vec<Client<D>>,
}

impl<D: Live> OnPool<D> {
    pub(in super::super) fn new(gpu: &Device<D>, threads: usize, streams: usize) -> Result<Self> {
        let first = gpu.create_stream("first", Priority::Low)?;
        Ok(Self {
            pool: gpu.stream_pool(streams)?,
            clients: (0..threads).map(|_| client(gpu, &first)).collect::<Result<_>>()?,
        })
    }
}

impl<D: Live> Way for OnPool<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let pool = &self.pool;
        let prepare = || Ok(());
        serve(&mut self.clients, items, prepare, |client, request, thread| {
            let mut memory = client.take().ok_or("the memory comes back")?;
            fill(check, request, thread, &mut memory.0);
            let memory = pool.with(|stream| enqueue(stream, memory))?;
            let memory = client.insert(memory.synchronize()?);
            compare(check, request, thread, &memory.3)
        })
    }
}
