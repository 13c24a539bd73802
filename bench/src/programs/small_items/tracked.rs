//! With cudarc, which tracks each use of memory: the program orders nothing.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice};

use super::{FACTOR, LEN, SLOTS, compare, fill};
use crate::rounds::{Check, Outcome, Round, Watch, Way};
use crate::tracked::{Tracked, pinned};

struct Slot {
    input: PinnedHostSlice<f32>,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    output: PinnedHostSlice<f32>,
}

pub(in super::super) struct ByCudarc<'a> {
    cudarc: &'a Tracked,
    upload: Arc<CudaStream>,
    compute: Arc<CudaStream>,
    download: Arc<CudaStream>,
    slots: Vec<Slot>,
}

impl<'a> ByCudarc<'a> {
    pub(in super::super) fn new(cudarc: &'a Tracked) -> Outcome<Self> {
        let context = &cudarc.context;
        let upload = context.new_stream()?;
        let compute = context.new_stream()?;
        let download = context.new_stream()?;
        let slot = |_| {
            Ok(Slot {
                input: pinned(context, LEN)?,
                a: compute.alloc_zeros(LEN)?,
                b: compute.alloc_zeros(LEN)?,
                output: pinned(context, LEN)?,
            })
        };
        let slots = (0..SLOTS).map(slot).collect::<Outcome<_>>()?;
        Ok(Self {
            cudarc,
            upload,
            compute,
            download,
            slots,
        })
    }

    fn enqueue(&mut self, slot: usize) -> Outcome {
        let Slot { input, a, b, output } = &mut self.slots[slot];
        self.upload.memcpy_htod(&*input, a)?;
        for _ in 0..2 {
            self.cudarc.scale(&self.compute, a, b, FACTOR)?;
            self.cudarc.scale(&self.compute, b, a, FACTOR)?;
        }
        self.download.memcpy_dtoh(&*a, output)?;
        Ok(())
    }
}

impl Way for ByCudarc<'_> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let watch = Watch::start();
        for item in 0..items {
            let slot = &mut self.slots[item as usize % SLOTS];
            if let Some(earlier) = item.checked_sub(SLOTS as u32) {
                compare(check, earlier, slot.output.as_slice()?)?;
            }
            fill(check, item, slot.input.as_mut_slice()?);
            self.enqueue(item as usize % SLOTS)?;
        }
        for item in items.saturating_sub(SLOTS as u32)..items {
            let slot = &self.slots[item as usize % SLOTS];
            compare(check, item, slot.output.as_slice()?)?;
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for slot in 0..SLOTS {
            self.enqueue(slot)?;
        }
        let time = started.elapsed();
        self.download.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
