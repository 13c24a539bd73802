//! With cudarc, which tracks each use of memory: the program orders nothing.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice};

use super::{FACTORS, HALF, LEN, compare, fill};
use crate::rounds::{Check, Outcome, Round, Watch, Way};
use crate::tracked::{Tracked, pinned};

struct Branch {
    stream: Arc<CudaStream>,
    input: PinnedHostSlice<f32>,
    uploaded: CudaSlice<f32>,
    scaled: CudaSlice<f32>,
    output: PinnedHostSlice<f32>,
}

pub(in super::super) struct ByCudarc<'a> {
    cudarc: &'a Tracked,
    compute: Arc<CudaStream>,
    branches: [Branch; 2],
    sum: CudaSlice<f32>,
}

impl<'a> ByCudarc<'a> {
    pub(in super::super) fn new(cudarc: &'a Tracked) -> Outcome<Self> {
        let context = &cudarc.context;
        let compute = context.new_stream()?;
        let branch = || -> Outcome<Branch> {
            Ok(Branch {
                stream: context.new_stream()?,
                input: pinned(context, LEN)?,
                uploaded: compute.alloc_zeros(LEN)?,
                scaled: compute.alloc_zeros(LEN)?,
                output: pinned(context, HALF)?,
            })
        };
        Ok(Self {
            cudarc,
            branches: [branch()?, branch()?],
            sum: compute.alloc_zeros(LEN)?,
            compute,
        })
    }

    fn enqueue(&mut self) -> Outcome {
        for (branch, factor) in self.branches.iter_mut().zip(FACTORS) {
            branch.stream.memcpy_htod(&branch.input, &mut branch.uploaded)?;
            let (from, to) = (&branch.uploaded, &mut branch.scaled);
            self.cudarc.scale(&branch.stream, from, to, factor)?;
        }
        let [left, right] = &self.branches;
        self.cudarc
            .add(&self.compute, &left.scaled, &right.scaled, &mut self.sum)?;
        for (branch, first) in self.branches.iter_mut().zip([0, HALF]) {
            let half = self.sum.slice(first..first + HALF);
            branch.stream.memcpy_dtoh(&half, &mut branch.output)?;
        }
        Ok(())
    }
}

impl Way for ByCudarc<'_> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let watch = Watch::start();
        for item in 0..items {
            for (side, branch) in self.branches.iter_mut().enumerate() {
                fill(check, item, side, branch.input.as_mut_slice()?);
            }
            self.enqueue()?;
            for (half, branch) in self.branches.iter().enumerate() {
                compare(check, item, half, branch.output.as_slice()?)?;
            }
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        self.enqueue()?;
        let time = started.elapsed();
        for branch in &self.branches {
            branch.stream.synchronize()?;
        }
        Ok(Some(time.as_nanos() as f64))
    }
}
