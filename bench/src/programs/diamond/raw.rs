//! By hand: one event for each edge: two into the sum, one out of it for both branches, and two to
//! the host.

use std::time::Instant;

use super::{FACTORS, HALF, LEN, compare, fill};
use crate::raw::{Event, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

struct Branch {
    stream: Stream,
    input: Pinned,
    uploaded: Memory,
    scaled: Memory,
    output: Pinned,
    ready: Event,
    downloaded: Event,
}

pub(in super::super) struct ByRaw {
    raw: &'static Raw,
    compute: Stream,
    branches: [Branch; 2],
    sum: Memory,
    added: Event,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw) -> Self {
        let branch = |_| Branch {
            stream: Stream::new(),
            input: Pinned::new(LEN),
            uploaded: Memory::new(LEN),
            scaled: Memory::new(LEN),
            output: Pinned::new(HALF),
            ready: Event::new(),
            downloaded: Event::new(),
        };
        Self {
            raw,
            compute: Stream::new(),
            branches: [0, 1].map(branch),
            sum: Memory::new(LEN),
            added: Event::new(),
        }
    }

    fn enqueue(&self) {
        for (branch, factor) in self.branches.iter().zip(FACTORS) {
            branch.stream.upload(&branch.input, &branch.uploaded);
            self.raw
                .scale(&branch.stream, &branch.uploaded, &branch.scaled, factor);
            branch.stream.record(&branch.ready);
            self.compute.wait(&branch.ready);
        }
        let [left, right] = &self.branches;
        self.raw
            .add(&self.compute, &left.scaled, &right.scaled, &self.sum);
        self.compute.record(&self.added);
        for (branch, first) in self.branches.iter().zip([0, HALF as u64]) {
            branch.stream.wait(&self.added);
            branch.stream.download(&self.sum, first, &branch.output);
            branch.stream.record(&branch.downloaded);
        }
    }
}

impl Drop for ByRaw {
    /// The sum is used on the branches' streams, which are dropped after `compute`.
    fn drop(&mut self) {
        for branch in &self.branches {
            branch.stream.synchronize();
        }
    }
}

impl Way for ByRaw {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let watch = Watch::start();
        for item in 0..items {
            for (side, branch) in self.branches.iter_mut().enumerate() {
                // SAFETY: the last diamond is over.
                fill(check, item, side, unsafe { branch.input.get_mut() });
            }
            self.enqueue();
            for (half, branch) in self.branches.iter().enumerate() {
                branch.downloaded.synchronize();
                // SAFETY: the branch's download is over.
                compare(check, item, half, unsafe { branch.output.get() })?;
            }
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        self.enqueue();
        let time = started.elapsed();
        for branch in &self.branches {
            branch.stream.synchronize();
        }
        Ok(Some(time.as_nanos() as f64))
    }
}
