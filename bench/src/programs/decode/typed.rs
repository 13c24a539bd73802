//! With handoffs: a slot goes from the decoder's stream to the download's, and then to the host.

use std::time::Instant;

use cuda_rt::{Device, DeviceBuffer, Grid1, Handoff, Idle, Live, PinnedBuffer, Result, Stream};
use device_kernels::scale;

use super::{LAUNCHES, LEN, SLOTS, compare, factor, first};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

cuda_rt::streams! { pub Decode; pub Download; }

type Slot<D> = (DeviceBuffer<f32, Idle<D>>, PinnedBuffer<f32, Idle<D>>);

pub(in super::super) struct Typed<D: Live> {
    decode: Stream<Decode<D>>,
    download: Stream<Download<D>>,
    state: DeviceBuffer<f32, Decode<D>>,
    next: DeviceBuffer<f32, Decode<D>>,
    slots: [Option<Handoff<Slot<D>>>; SLOTS],
}

impl<D: Live> Typed<D> {
    pub(in super::super) fn new(gpu: &Device<D>) -> Result<Self> {
        let decode = gpu.stream::<Decode<D>>()?;
        let slot = || {
            let output = decode.adopt(gpu.pinned(LEN)?)?;
            decode.release((decode.alloc_zeroed(LEN)?, output)).map(Some)
        };
        Ok(Self {
            download: gpu.stream()?,
            state: decode.alloc_zeroed(LEN)?,
            next: decode.alloc_zeroed(LEN)?,
            slots: [slot()?, slot()?],
            decode,
        })
    }

    fn launches(&mut self) -> Result<()> {
        for launch in 0..LAUNCHES {
            let grid = Grid1::covering(LEN);
            scale(&self.decode, grid, &self.state, &mut self.next, factor(launch))?;
            std::mem::swap(&mut self.state, &mut self.next);
        }
        Ok(())
    }

    fn copies(&mut self, slot: Slot<D>) -> Result<Handoff<Slot<D>>> {
        let (mut chunk, output) = self.decode.adopt(slot)?;
        self.decode.copy(&self.state, &mut chunk)?;
        let decoded = self.decode.release((chunk, output))?;
        let (chunk, mut output) = self.download.acquire(decoded)?;
        self.download.copy_to_host(&chunk, &mut output)?;
        self.download.release((chunk, output))
    }

    fn idle(&mut self, chunk: u32) -> Outcome<Slot<D>> {
        let slot = self.slots[chunk as usize % SLOTS].take();
        Ok(slot.ok_or("each slot comes back")?.synchronize()?)
    }
}

impl<D: Live> Way for Typed<D> {
    fn round(&mut self, chunks: u32, check: Check) -> Outcome<Round> {
        self.decode.copy_from_slice(&first(), &mut self.state)?;
        self.decode.synchronize()?;
        let watch = Watch::start();
        for chunk in 0..chunks {
            self.launches()?;
            let slot = self.idle(chunk)?;
            if let Some(earlier) = chunk.checked_sub(SLOTS as u32) {
                compare(check, earlier, &slot.1)?;
            }
            self.slots[chunk as usize % SLOTS] = Some(self.copies(slot)?);
        }
        for chunk in chunks.saturating_sub(SLOTS as u32)..chunks {
            let slot = self.idle(chunk)?;
            compare(check, chunk, &slot.1)?;
            self.slots[chunk as usize % SLOTS] = Some(Handoff::ready(slot));
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let idle = [self.idle(0)?, self.idle(1)?];
        let started = Instant::now();
        for (at, slot) in idle.into_iter().enumerate() {
            self.launches()?;
            self.slots[at] = Some(self.copies(slot)?);
        }
        let time = started.elapsed();
        self.download.synchronize()?;
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
