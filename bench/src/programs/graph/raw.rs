//! By hand: capture, instantiation, and `cuGraphLaunch`.

use std::time::Instant;

use super::{BURST, LAUNCHES, LEN, compare, factor, first};
use crate::raw::{Graph, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

pub(in super::super) struct ByRaw {
    stream: Stream,
    graph: Graph,
    first: Pinned,
    data: [Memory; 2],
    output: Pinned,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw) -> Self {
        let mut start = Pinned::new(LEN);
        // SAFETY: no work uses the memory yet.
        unsafe { start.get_mut() }.copy_from_slice(&first());
        let (stream, data) = (Stream::new(), [Memory::new(LEN), Memory::new(LEN)]);
        // The kernels are loaded before the capture.
        stream.upload(&start, &data[0]);
        raw.scale(&stream, &data[0], &data[1], 1.0);
        stream.synchronize();
        let graph = stream.capture(|| {
            for launch in 0..LAUNCHES {
                let (from, to) = (&data[launch % 2], &data[(launch + 1) % 2]);
                raw.scale(&stream, from, to, factor(launch));
            }
        });
        Self {
            stream,
            graph,
            first: start,
            data,
            output: Pinned::new(LEN),
        }
    }
}

impl Way for ByRaw {
    fn round(&mut self, replays: u32, check: Check) -> Outcome<Round> {
        self.stream.upload(&self.first, &self.data[0]);
        self.stream.synchronize();
        let watch = Watch::start();
        for _ in 0..replays {
            self.stream.replay(&self.graph);
        }
        self.stream.synchronize();
        let round = watch.stop();
        self.stream.download(&self.data[0], 0, &self.output);
        self.stream.synchronize();
        // SAFETY: the download is over.
        compare(check, replays, unsafe { self.output.get() })?;
        Ok(round)
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for _ in 0..BURST {
            self.stream.replay(&self.graph);
        }
        let time = started.elapsed();
        self.stream.synchronize();
        Ok(Some(time.as_nanos() as f64 / f64::from(BURST)))
    }
}
