//! With cudarc's graphs. Its tracking must be off for them: a capture cannot wait for events that
//! were recorded outside.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream};

use super::{BURST, LAUNCHES, LEN, compare, factor, first};
use crate::rounds::{Check, Outcome, Round, Watch, Way};
use crate::tracked::Tracked;

pub(in super::super) struct ByCudarc {
    graph: CudaGraph,
    stream: Arc<CudaStream>,
    data: [CudaSlice<f32>; 2],
    /// The graph's kernels: dropping them would unload their module.
    _kernels: Tracked,
}

impl ByCudarc {
    pub(in super::super) fn new() -> Outcome<Self> {
        let cudarc = Tracked::open()?;
        // SAFETY: this way has one stream, whose order is all that its memory needs.
        unsafe { cudarc.context.disable_event_tracking() };
        let stream = cudarc.context.new_stream()?;
        let mut data = [stream.alloc_zeros(LEN)?, stream.alloc_zeros(LEN)?];
        let [x, y] = &mut data;
        // The kernels are loaded before the capture.
        cudarc.scale(&stream, x, y, 1.0)?;
        stream.synchronize()?;
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let (mut from, mut to) = (x, y);
        for launch in 0..LAUNCHES {
            cudarc.scale(&stream, from, to, factor(launch))?;
            std::mem::swap(&mut from, &mut to);
        }
        let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
        let graph = graph.ok_or("the capture made no graph")?;
        Ok(Self {
            graph,
            stream,
            data,
            _kernels: cudarc,
        })
    }
}

impl Way for ByCudarc {
    fn round(&mut self, replays: u32, check: Check) -> Outcome<Round> {
        let first = first();
        self.stream.memcpy_htod(&first, &mut self.data[0])?;
        self.stream.synchronize()?;
        let watch = Watch::start();
        for _ in 0..replays {
            self.graph.launch()?;
        }
        self.stream.synchronize()?;
        let round = watch.stop();
        let output = self.stream.clone_dtoh(&self.data[0])?;
        self.stream.synchronize()?;
        compare(check, replays, &output)?;
        Ok(round)
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for _ in 0..BURST {
            self.graph.launch()?;
        }
        let time = started.elapsed();
        self.stream.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / f64::from(BURST)))
    }
}
