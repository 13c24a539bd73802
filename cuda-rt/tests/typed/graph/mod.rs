//! Graphs: captured work, replayed, and changed between replays.
#![forbid(unsafe_code)]

mod attacks;
mod capture;
mod capture_log;
mod host;
mod instance;
mod kept;

use cuda_rt::simulator::{Call, Simulator};
use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceViewMut, Graph, Grid1, Idle, Live, PinnedBuffer, Result, Stream,
};
use device_kernels::{saxpy, scale};

cuda_rt::streams! {
    Compute;
}

const LEN: usize = 300;

type View<'g, D> = DeviceViewMut<'g, f32, Captured<'g, Compute<D>>>;

type Pair<D> = (DeviceBuffer<f32, Idle<D>>, DeviceBuffer<f32, Idle<D>>);

fn filled<D: Live>(stream: &Stream<Compute<D>>, value: f32) -> DeviceBuffer<f32, Compute<D>> {
    stream
        .init_filled(stream.alloc_uninit(LEN).unwrap(), value)
        .unwrap()
}

/// A copy of the memory's contents at this place in the stream, in flight.
fn copied<D: Live>(
    gpu: &Device<D>,
    stream: &Stream<Compute<D>>,
    view: &cuda_rt::DeviceSlice<f32, Compute<D>>,
) -> PinnedBuffer<f32, Compute<D>> {
    let mut host = stream.adopt(gpu.pinned(view.len()).unwrap()).unwrap();
    stream.copy_to_host(view, &mut host).unwrap();
    host
}

/// The one value of all elements.
#[track_caller]
fn value<D: Live>(stream: &Stream<Compute<D>>, host: PinnedBuffer<f32, Compute<D>>) -> f32 {
    let host = stream.release(host).unwrap().synchronize().unwrap();
    let first = host[0];
    assert!(host.iter().all(|value| *value == first), "{host:?}");
    first
}

/// Computes `b = first * a; b = second * b + b`, by two launches.
fn two_launches<'g, D: Live>(
    stream: &Stream<Captured<'g, Compute<D>>>,
    (a, mut b): (View<'g, D>, View<'g, D>),
    [first, second]: [f32; 2],
) -> Result<()> {
    scale(stream, Grid1::covering(a.len()), &a, &mut b, first)?;
    let mut sum = stream.alloc_zeroed::<f32>(b.len())?;
    scale(stream, Grid1::covering(b.len()), &b, &mut sum, 1.0)?;
    saxpy(stream, Grid1::covering(b.len()), second, &sum, &mut b)
}

fn calls(simulator: Option<&Simulator>, call: Call) -> u64 {
    simulator.map_or(0, |simulator| simulator.counters().calls(call))
}

/// A graph of `two_launches` with the result `8 * value`, and a check that it still has this
/// result.
struct Known<D: Live> {
    compute: Stream<Compute<D>>,
    graph: Graph<Pair<D>, Compute<D>>,
}

impl<D: Live> Known<D> {
    fn new(gpu: &Device<D>) -> Self {
        let compute = gpu.stream::<Compute<D>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let graph = compute
            .capture(bundle, |stream, pair| two_launches(stream, pair, [2.0, 1.0]))
            .unwrap();
        Self { compute, graph }
    }

    #[track_caller]
    fn is_as_it_was(&mut self, gpu: &Device<D>) {
        self.replays(gpu, 8.0);
    }

    #[track_caller]
    fn replays(&mut self, gpu: &Device<D>, expected: f32) {
        self.graph.launch(&self.compute).unwrap();
        let host = copied(gpu, &self.compute, &self.graph.views().1);
        assert_eq!(value(&self.compute, host), expected);
    }

    /// The graph can still be updated.
    #[track_caller]
    fn works(mut self, gpu: &Device<D>) {
        self.is_as_it_was(gpu);
        self.graph
            .update(|stream, pair| two_launches(stream, pair, [3.0, 2.0]))
            .unwrap();
        self.replays(gpu, 18.0);
    }
}
