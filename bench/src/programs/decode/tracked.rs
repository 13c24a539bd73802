//! With cudarc, which tracks each use of memory: the program orders nothing.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice};

use super::{LAUNCHES, LEN, SLOTS, compare, factor, first};
use crate::rounds::{Check, Outcome, Round, Watch, Way};
use crate::tracked::{Tracked, pinned};

pub(in super::super) struct ByCudarc<'a> {
    cudarc: &'a Tracked,
    decode: Arc<CudaStream>,
    download: Arc<CudaStream>,
    state: CudaSlice<f32>,
    next: CudaSlice<f32>,
    slots: Vec<(CudaSlice<f32>, PinnedHostSlice<f32>)>,
}

impl<'a> ByCudarc<'a> {
    pub(in super::super) fn new(cudarc: &'a Tracked) -> Outcome<Self> {
        let context = &cudarc.context;
        let decode = context.new_stream()?;
        let slot = |_| Ok((decode.alloc_zeros(LEN)?, pinned(context, LEN)?));
        let slots = (0..SLOTS).map(slot).collect::<Outcome<_>>()?;
        Ok(Self {
            cudarc,
            download: context.new_stream()?,
            state: decode.alloc_zeros(LEN)?,
            next: decode.alloc_zeros(LEN)?,
            decode,
            slots,
        })
    }

    fn launches(&mut self) -> Outcome {
        for launch in 0..LAUNCHES {
            let (from, to) = (&self.state, &mut self.next);
            self.cudarc.scale(&self.decode, from, to, factor(launch))?;
            std::mem::swap(&mut self.state, &mut self.next);
        }
        Ok(())
    }

    fn copies(&mut self, slot: usize) -> Outcome {
        let (chunk, output) = &mut self.slots[slot];
        self.decode.memcpy_dtod(&self.state, chunk)?;
        self.download.memcpy_dtoh(&*chunk, output)?;
        Ok(())
    }

    fn collect(&self, chunk: u32, check: Check) -> Outcome {
        compare(check, chunk, self.slots[chunk as usize % SLOTS].1.as_slice()?)
    }
}

impl Way for ByCudarc<'_> {
    fn round(&mut self, chunks: u32, check: Check) -> Outcome<Round> {
        let first = first();
        self.decode.memcpy_htod(&first, &mut self.state)?;
        self.decode.synchronize()?;
        let watch = Watch::start();
        for chunk in 0..chunks {
            self.launches()?;
            if let Some(earlier) = chunk.checked_sub(SLOTS as u32) {
                self.collect(earlier, check)?;
            }
            self.copies(chunk as usize % SLOTS)?;
        }
        for chunk in chunks.saturating_sub(SLOTS as u32)..chunks {
            self.collect(chunk, check)?;
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for slot in 0..SLOTS {
            self.launches()?;
            self.copies(slot)?;
        }
        let time = started.elapsed();
        self.download.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
