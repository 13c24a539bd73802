//! By hand: three events for each slot. The host waits for the last one before it uses the slot
//! again, so that the other two are over too.

use std::time::Instant;

use super::{FACTOR, LEN, SLOTS, compare, fill};
use crate::raw::{Event, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

struct Slot {
    input: Pinned,
    a: Memory,
    b: Memory,
    output: Pinned,
    uploaded: Event,
    computed: Event,
    downloaded: Event,
}

pub(in super::super) struct ByRaw {
    raw: &'static Raw,
    upload: Stream,
    compute: Stream,
    download: Stream,
    slots: Vec<Slot>,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw) -> Self {
        let slot = |_| Slot {
            input: Pinned::new(LEN),
            a: Memory::new(LEN),
            b: Memory::new(LEN),
            output: Pinned::new(LEN),
            uploaded: Event::new(),
            computed: Event::new(),
            downloaded: Event::new(),
        };
        Self {
            raw,
            upload: Stream::new(),
            compute: Stream::new(),
            download: Stream::new(),
            slots: (0..SLOTS).map(slot).collect(),
        }
    }

    fn enqueue(&self, slot: &Slot) {
        self.upload.upload(&slot.input, &slot.a);
        self.upload.record(&slot.uploaded);
        self.compute.wait(&slot.uploaded);
        for _ in 0..2 {
            self.raw.scale(&self.compute, &slot.a, &slot.b, FACTOR);
            self.raw.scale(&self.compute, &slot.b, &slot.a, FACTOR);
        }
        self.compute.record(&slot.computed);
        self.download.wait(&slot.computed);
        self.download.download(&slot.a, 0, &slot.output);
        self.download.record(&slot.downloaded);
    }

    fn collect(&self, item: u32, check: Check) -> Outcome {
        let slot = &self.slots[item as usize % SLOTS];
        slot.downloaded.synchronize();
        // SAFETY: the slot's last download is over.
        compare(check, item, unsafe { slot.output.get() })
    }
}

impl Way for ByRaw {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let watch = Watch::start();
        for item in 0..items {
            if let Some(earlier) = item.checked_sub(SLOTS as u32) {
                self.collect(earlier, check)?;
            }
            let slot = &mut self.slots[item as usize % SLOTS];
            // SAFETY: the slot's last item was collected, so its upload is over.
            fill(check, item, unsafe { slot.input.get_mut() });
            self.enqueue(&self.slots[item as usize % SLOTS]);
        }
        for item in items.saturating_sub(SLOTS as u32)..items {
            self.collect(item, check)?;
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for slot in &self.slots {
            self.enqueue(slot);
        }
        let time = started.elapsed();
        self.download.synchronize();
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
