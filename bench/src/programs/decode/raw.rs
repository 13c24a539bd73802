//! By hand: two events for each slot. The host reads a slot's last chunk before it enqueues the
//! next copy into the slot, so no stream waits for the slot.

use std::time::Instant;

use super::{LAUNCHES, LEN, SLOTS, compare, factor, first};
use crate::raw::{Event, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

struct Slot {
    chunk: Memory,
    output: Pinned,
    decoded: Event,
    downloaded: Event,
}

pub(in super::super) struct ByRaw {
    raw: &'static Raw,
    decode: Stream,
    download: Stream,
    first: Pinned,
    state: [Memory; 2],
    slots: Vec<Slot>,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw) -> Self {
        let mut start = Pinned::new(LEN);
        // SAFETY: no work uses the memory yet.
        unsafe { start.get_mut() }.copy_from_slice(&first());
        let slot = |_| Slot {
            chunk: Memory::new(LEN),
            output: Pinned::new(LEN),
            decoded: Event::new(),
            downloaded: Event::new(),
        };
        Self {
            raw,
            decode: Stream::new(),
            download: Stream::new(),
            first: start,
            state: [Memory::new(LEN), Memory::new(LEN)],
            slots: (0..SLOTS).map(slot).collect(),
        }
    }

    fn launches(&self) {
        for launch in 0..LAUNCHES {
            let (from, to) = (&self.state[launch % 2], &self.state[(launch + 1) % 2]);
            self.raw.scale(&self.decode, from, to, factor(launch));
        }
    }

    fn copies(&self, slot: &Slot) {
        self.decode.copy(&self.state[0], &slot.chunk);
        self.decode.record(&slot.decoded);
        self.download.wait(&slot.decoded);
        self.download.download(&slot.chunk, 0, &slot.output);
        self.download.record(&slot.downloaded);
    }

    fn collect(&self, chunk: u32, check: Check) -> Outcome {
        let slot = &self.slots[chunk as usize % SLOTS];
        slot.downloaded.synchronize();
        // SAFETY: the slot's last download is over.
        compare(check, chunk, unsafe { slot.output.get() })
    }
}

impl Way for ByRaw {
    fn round(&mut self, chunks: u32, check: Check) -> Outcome<Round> {
        self.decode.upload(&self.first, &self.state[0]);
        self.decode.synchronize();
        let watch = Watch::start();
        for chunk in 0..chunks {
            self.launches();
            if let Some(earlier) = chunk.checked_sub(SLOTS as u32) {
                self.collect(earlier, check)?;
            }
            self.copies(&self.slots[chunk as usize % SLOTS]);
        }
        for chunk in chunks.saturating_sub(SLOTS as u32)..chunks {
            self.collect(chunk, check)?;
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for slot in &self.slots {
            self.launches();
            self.copies(slot);
        }
        let time = started.elapsed();
        self.download.synchronize();
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
