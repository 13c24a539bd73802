//! With `Stream::capture` and `Graph::launch`.

use std::time::Instant;

use cuda_rt::{Device, DeviceBuffer, Graph, Grid1, Idle, Live, Result, Stream};
use device_kernels::scale;

use super::{BURST, LAUNCHES, LEN, compare, factor, first};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

cuda_rt::streams! { pub Compute; }

type Pair<D> = (DeviceBuffer<f32, Idle<D>>, DeviceBuffer<f32, Idle<D>>);

pub(in super::super) struct Typed<D: Live> {
    compute: Stream<Compute<D>>,
    graph: Graph<Pair<D>, Compute<D>>,
    output: Vec<f32>,
}

impl<D: Live> Typed<D> {
    pub(in super::super) fn new(gpu: &Device<D>) -> Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        let data = (compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?);
        let graph = compute.capture(data, |stream, (mut x, mut y)| {
            let (mut from, mut to) = (&mut x, &mut y);
            for launch in 0..LAUNCHES {
                scale(stream, Grid1::covering(LEN), from, to, factor(launch))?;
                std::mem::swap(&mut from, &mut to);
            }
            Ok(())
        })?;
        let output = vec![0.0; LEN];
        Ok(Self {
            compute,
            graph,
            output,
        })
    }
}

impl<D: Live> Way for Typed<D> {
    fn round(&mut self, replays: u32, check: Check) -> Outcome<Round> {
        self.compute
            .copy_from_slice(&first(), &mut self.graph.views().0)?;
        self.compute.synchronize()?;
        let watch = Watch::start();
        for _ in 0..replays {
            self.graph.launch(&self.compute)?;
        }
        self.compute.synchronize()?;
        let round = watch.stop();
        self.compute
            .copy_to_slice(&self.graph.views().0, &mut self.output)?;
        compare(check, replays, &self.output)?;
        Ok(round)
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for _ in 0..BURST {
            self.graph.launch(&self.compute)?;
        }
        let time = started.elapsed();
        self.compute.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / f64::from(BURST)))
    }
}
