//! With handoffs: one bundle goes through the three streams, and comes back to the host.

use std::time::Instant;

use cuda_rt::{Device, DeviceBuffer, Grid1, Handoff, Idle, Live, PinnedBuffer, Result, Stream};
use device_kernels::scale;

use super::{FACTOR, LEN, SLOTS, compare, fill};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

cuda_rt::streams! { pub Upload; pub Compute; pub Download; }

type Slot<D> = (
    PinnedBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    PinnedBuffer<f32, Idle<D>>,
);

pub(in super::super) struct Typed<D: Live> {
    upload: Stream<Upload<D>>,
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    slots: Vec<Handoff<Slot<D>>>,
}

impl<D: Live> Typed<D> {
    pub(in super::super) fn new(gpu: &Device<D>) -> Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        let slot = |_| {
            let input = compute.adopt(gpu.pinned(LEN)?)?;
            let (a, b) = (compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?);
            let output = compute.adopt(gpu.pinned(LEN)?)?;
            compute.release((input, a, b, output))
        };
        let slots = (0..SLOTS).map(slot).collect::<Result<_>>()?;
        Ok(Self {
            upload: gpu.stream()?,
            download: gpu.stream()?,
            compute,
            slots,
        })
    }

    fn enqueue(&self, slot: Slot<D>) -> Result<Handoff<Slot<D>>> {
        let (upload, compute, download) = (&self.upload, &self.compute, &self.download);
        let (input, mut a, b, output) = upload.adopt(slot)?;
        upload.copy_to_device(&input, &mut a)?;
        let uploaded = upload.release((input, a, b, output))?;
        let (input, mut a, mut b, output) = compute.acquire(uploaded)?;
        for _ in 0..2 {
            scale(compute, Grid1::covering(LEN), &a, &mut b, FACTOR)?;
            scale(compute, Grid1::covering(LEN), &b, &mut a, FACTOR)?;
        }
        let computed = compute.release((input, a, b, output))?;
        let (input, a, b, mut output) = download.acquire(computed)?;
        download.copy_to_host(&a, &mut output)?;
        download.release((input, a, b, output))
    }
}

impl<D: Live> Way for Typed<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let mut slots: std::collections::VecDeque<_> = self.slots.drain(..).collect();
        let watch = Watch::start();
        for item in 0..items {
            let slot = slots.pop_front().ok_or("each slot comes back")?;
            let mut slot = slot.synchronize()?;
            if let Some(earlier) = item.checked_sub(SLOTS as u32) {
                compare(check, earlier, &slot.3)?;
            }
            fill(check, item, &mut slot.0);
            slots.push_back(self.enqueue(slot)?);
        }
        for item in items.saturating_sub(SLOTS as u32)..items {
            let slot = slots.pop_front().ok_or("each slot comes back")?;
            let slot = slot.synchronize()?;
            compare(check, item, &slot.3)?;
            slots.push_back(Handoff::ready(slot));
        }
        let round = watch.stop();
        self.slots.extend(slots);
        Ok(round)
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let idle = self.slots.drain(..).map(Handoff::synchronize);
        let idle = idle.collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        for slot in idle {
            let pending = self.enqueue(slot)?;
            self.slots.push(pending);
        }
        let time = started.elapsed();
        self.download.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
