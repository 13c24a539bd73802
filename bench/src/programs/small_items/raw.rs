//! By hand: three events for each item in flight. The host waits for the last one before it uses
//! the slot again, so that the other two are over too.

use std::time::Instant;

use super::{FACTOR, LEN, SLOTS, compare, fill};
use crate::raw::{Event, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

/// What cuda-rt does in another way. Each can be done by raw calls too, to see what it costs.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Habits {
    /// Host memory is page-locked where it is (`cuMemHostRegister`), not allocated by CUDA.
    pub(in super::super) registered: bool,
    /// Each wait of the host is kept apart from captures of other code.
    pub(in super::super) apart: bool,
    /// This many items pass until an event is recorded again, instead of `SLOTS`.
    pub(in super::super) events: usize,
}

impl Habits {
    /// As a careful person writes it.
    pub(in super::super) const NONE: Self = Self {
        registered: false,
        apart: false,
        events: SLOTS,
    };
    /// Events of a stream of cuda-rt, which it records in turn.
    pub(in super::super) const RING: usize = 128;
}

struct Slot {
    input: Pinned,
    a: Memory,
    b: Memory,
    output: Pinned,
}

struct Events {
    uploaded: Event,
    computed: Event,
    downloaded: Event,
}

pub(in super::super) struct ByRaw {
    raw: &'static Raw,
    habits: Habits,
    upload: Stream,
    compute: Stream,
    download: Stream,
    slots: Vec<Slot>,
    events: Vec<Events>,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw, habits: Habits) -> Self {
        assert!(
            habits.events >= SLOTS,
            "an event is recorded again while its item is in flight"
        );
        let pinned = if habits.registered {
            Pinned::registered
        } else {
            Pinned::new
        };
        let slot = |_| Slot {
            input: pinned(LEN),
            a: Memory::new(LEN),
            b: Memory::new(LEN),
            output: pinned(LEN),
        };
        let events = |_| Events {
            uploaded: Event::new(),
            computed: Event::new(),
            downloaded: Event::new(),
        };
        Self {
            raw,
            habits,
            upload: Stream::new(),
            compute: Stream::new(),
            download: Stream::new(),
            slots: (0..SLOTS).map(slot).collect(),
            events: (0..habits.events).map(events).collect(),
        }
    }

    fn enqueue(&self, item: u32) {
        let slot = &self.slots[item as usize % SLOTS];
        let events = &self.events[item as usize % self.events.len()];
        self.upload.upload(&slot.input, &slot.a);
        self.upload.record(&events.uploaded);
        self.compute.wait(&events.uploaded);
        for _ in 0..2 {
            self.raw.scale(&self.compute, &slot.a, &slot.b, FACTOR);
            self.raw.scale(&self.compute, &slot.b, &slot.a, FACTOR);
        }
        self.compute.record(&events.computed);
        self.download.wait(&events.computed);
        self.download.download(&slot.a, 0, &slot.output);
        self.download.record(&events.downloaded);
    }

    fn collect(&self, item: u32, check: Check) -> Outcome {
        let slot = &self.slots[item as usize % SLOTS];
        let downloaded = &self.events[item as usize % self.events.len()].downloaded;
        if self.habits.apart {
            downloaded.synchronize_apart();
        } else {
            downloaded.synchronize();
        }
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
            self.enqueue(item);
        }
        for item in items.saturating_sub(SLOTS as u32)..items {
            self.collect(item, check)?;
        }
        Ok(watch.stop())
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let started = Instant::now();
        for item in 0..SLOTS as u32 {
            self.enqueue(item);
        }
        let time = started.elapsed();
        self.download.synchronize();
        Ok(Some(time.as_nanos() as f64 / SLOTS as f64))
    }
}
