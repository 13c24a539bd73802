//! [`Clock`]: what each stream, and the host, is already ordered after.
//!
//! The numbered records of a stream are its time. A stream's clock holds, for each stream of its
//! [`Table`], the highest record that the stream has waited for. The table holds, for each stream,
//! the highest record that the host has seen over. A wait is redundant, and left out, if one of the
//! two has reached the record:
//!
//! ```text
//!   record n of s ──▶ t waits: the call, then   seen[t][s] = n, seen[t] joins seen[s] at record n
//!                 ──▶ the host waits: then      over[s] = n,    over joins seen[s] at record n,
//!                                               in the entries of the device of s
//!   t waits for record m of s:  left out if  m ≤ seen[t][s]  or  m ≤ over[s]
//! ```
//!
//! What a stream has seen is order alone, so it goes from device to device. What the host has seen
//! over is also an answer: no closure has failed on the way ([`Clock::seen_over`]). A device
//! answers for its own streams only.
//!
//! These are vector clocks, as in the checker, but in atomics and of fixed size. They are never
//! read as a whole: each entry is true by itself, for ever. So a reader may see some entries old,
//! and a writer may replace a higher entry by a lower one. Either only costs a wait.
//!
//! A second handoff needs no second record if nothing was enqueued in between. [`Clock::state`]
//! says this: it holds the number of the last record, until work replaces it by [`WORK`].
//!
//! # What the order of the driver's calls gives
//! The calls of threads on one stream take effect one after another, and the effect of a call
//! happens before each call on that stream which takes effect later
//! ([`Driver`](cuda_rt_driver::Driver), **Order**). Every proof below that compares two threads
//! uses this.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::{fmt, ptr};

use crate::order::ring::Ring;
use crate::order::stream_ref::StreamId;
use crate::order::try_lock::TryLock;
use cuda_rt_driver::RawStream;

/// The number of streams of a table. Streams beyond it have no clock: they always record and wait.
pub(super) const STREAMS: usize = 32;

/// Places of a table, a bit each.
type Places = AtomicU32;
const _: () = assert!(STREAMS == u32::BITS as usize);

/// The state of a stream whose last record does not cover all its work.
const WORK: u64 = 0;

/// The number of a record that no clock counts. No clock reaches it, so waits for it are always
/// made.
pub(super) const UNNUMBERED: u64 = u64::MAX;

/// The place of a stream that has no event of its own yet.
const NO_PLACE: usize = usize::MAX;

/// The entries of a clock that are copied and compared at once, which saves a loop's steps.
const BLOCK: usize = 4;

/// What a stream has waited for, by the stream's place in the table.
#[derive(Debug, Default)]
pub(super) struct Seen([[AtomicU64; BLOCK]; STREAMS / BLOCK]);

impl Seen {
    #[inline]
    fn at(&self, place: usize) -> &AtomicU64 {
        &self.0.as_flattened()[place % STREAMS]
    }

    /// Takes over the entries of `other`: those of the first block, which most programs need alone,
    /// and of `further` blocks.
    #[inline]
    fn copy(&self, other: &Self, further: usize) {
        self.copy_block(other, 0);
        if further > 0 {
            self.copy_further(other, further);
        }
    }

    #[cold]
    fn copy_further(&self, other: &Self, further: usize) {
        for block in 1..=further {
            self.copy_block(other, block);
        }
    }

    /// ORDER: the acquire puts the wait that made an entry true before what the caller does next.
    #[inline]
    fn copy_block(&self, other: &Self, block: usize) {
        let block = block % self.0.len();
        for (to, from) in self.0[block].iter().zip(&other.0[block]) {
            to.store(from.load(Ordering::Acquire), Ordering::Relaxed);
        }
    }

    /// Raises each entry to the one of `other`, in as many blocks as [`copy`](Self::copy).
    #[inline]
    fn join(&self, other: &Self, further: usize) {
        self.join_block(other, 0);
        if further > 0 {
            self.join_further(other, further);
        }
    }

    #[cold]
    fn join_further(&self, other: &Self, further: usize) {
        for block in 1..=further {
            self.join_block(other, block);
        }
    }

    #[inline]
    fn join_block(&self, other: &Self, block: usize) {
        let block = block % self.0.len();
        for (to, from) in self.0[block].iter().zip(&other.0[block]) {
            raise(to, from.load(Ordering::Relaxed));
        }
    }

    fn reset(&self) {
        for entry in self.0.as_flattened() {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

/// A record of a stream with a clock: the clock, the record's number, and what is over once the
/// record is. That is what the stream had seen before it, and the record itself if it has a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) stream: &'static Clock,
    pub(super) number: u64,
    pub(super) seen: &'a Seen,
}

/// What the clocks know of a record, for a stream that would wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The stream is already ordered after the record (SEEN-2).
    Covered,
    /// The host has seen the record over (TABLE-2).
    Over,
    Nothing,
}

impl Record<'_> {
    /// Whether the host has seen the record over.
    pub(super) fn is_over(self) -> bool {
        // ORDER: as in `Clock::knows`.
        let place = self.stream.place.load(Ordering::Relaxed);
        self.stream.table.over.at(place).load(Ordering::Acquire) >= self.number
    }

    /// Notes that the host has seen the record over: a wait for the record, or a query of it, has
    /// succeeded (TABLE-2).
    pub(super) fn seen_over(self) {
        self.stream.seen_over(self.seen);
    }
}

/// Raises an entry of a clock to `number`.
///
/// ORDER: the release pairs with the acquire of each reader: the wait that makes the entry true
/// happens before all that the reader does. Two threads may raise one entry at once, and the lower
/// number may stay: it is as true, and says less.
#[inline]
fn raise(entry: &AtomicU64, number: u64) {
    if entry.load(Ordering::Relaxed) < number {
        entry.store(number, Ordering::Release);
    }
}

/// The clock of one stream.
///
/// # Invariants
/// SEEN-1. The numbered records of the stream are made one at a time, by the holder of `ring`, and
/// their numbers rise. So a record with a higher number is later in the stream, and covers all that
/// an earlier one covers.
/// SEEN-2. If `seen[s]` is n, the stream is ordered after record n of the stream at the place s:
/// a wait for that record, or for an event behind it, was enqueued before the entry was stored.
/// SEEN-3. If `state` is n and not [`WORK`], all work whose end of call happens before the load of
/// `state` is in the stream before record n.
/// SEEN-4. If `uncounted` is not 0, no record is numbered or shared, and no wait of the stream is
/// left out. Its bit `EXPOSED` is set if other code may enqueue work on the stream.
pub(crate) struct Clock {
    table: &'static Table,
    /// CUDA's handle of the stream.
    raw: AtomicU64,
    /// The stream's identity.
    id: AtomicU64,
    /// The number of the stream's device in the table.
    device: AtomicUsize,
    /// The stream's entry in each clock, or [`NO_PLACE`] before its first record: what no stream
    /// waits for needs no entry.
    place: AtomicUsize,
    /// The last numbered record, or [`WORK`].
    state: AtomicU64,
    /// The last numbered record whose call has returned, or 0.
    recorded: AtomicU64,
    uncounted: AtomicU8,
    ring: TryLock<Ring>,
    seen: Seen,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?} of {:p})", self.place, self.table)
    }
}

impl Clock {
    /// Other code has the stream's handle.
    const EXPOSED: u8 = 1;
    /// The device keeps redundant records and waits.
    const KEEPS: u8 = 2;

    fn new(table: &'static Table) -> Self {
        Self {
            table,
            raw: AtomicU64::new(0),
            id: AtomicU64::new(0),
            device: AtomicUsize::new(0),
            place: AtomicUsize::new(NO_PLACE),
            state: AtomicU64::new(WORK),
            recorded: AtomicU64::new(0),
            uncounted: AtomicU8::new(0),
            ring: TryLock::default(),
            seen: Seen::default(),
        }
    }

    /// Forgets everything, for another stream. The table has no user (TABLE-1).
    fn reset(&self) {
        // ORDER: the lock of the free tables orders these stores before the next stream's loads.
        self.seen.reset();
        self.place.store(NO_PLACE, Ordering::Relaxed);
        self.state.store(WORK, Ordering::Relaxed);
        self.recorded.store(0, Ordering::Relaxed);
        self.uncounted.store(0, Ordering::Relaxed);
    }

    /// CUDA's handle of the stream. Only a [`StreamRef`](super::stream_ref::StreamRef) asks for it.
    #[inline]
    pub(super) fn raw(&self) -> RawStream {
        // ORDER: it was stored before the stream was used, and changes for another stream only.
        RawStream(self.raw.load(Ordering::Relaxed))
    }

    /// The bits of the stream's identity.
    #[inline]
    pub(super) fn id(&self) -> u64 {
        // ORDER: as in `raw`.
        self.id.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn ring(&self) -> &TryLock<Ring> {
        &self.ring
    }

    /// Notes that work was enqueued on the stream. The call has ended: it has returned, with or
    /// without an error, or has unwound.
    ///
    /// ORDER: this keeps SEEN-3, by a plain store. Suppose that a thread ends the call of work W,
    /// stores here, and later it, or a thread that it has told, loads n. Then W is before record n.
    /// If it were not, record n would take effect before W; the store of n, which is before the
    /// call of the record, would happen before this store; and the load, which comes after this
    /// store, could not see n. The release only makes that argument short on weak machines.
    #[inline]
    pub(super) fn worked(&self) {
        self.state.store(WORK, Ordering::Release);
    }

    /// Gives the stream a place, if it has none, before it gets its first event. The caller holds
    /// `ring`.
    #[cold]
    pub(super) fn take_place(&self) {
        if self.place.load(Ordering::Relaxed) != NO_PLACE {
            return;
        }
        let place = self.table.take_place();
        // ORDER: as for the place. Who sees an old value raises fewer entries of `over`.
        self.places_of_device().fetch_or(1 << place, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }

    /// Notes that record `number` is about to be made, by the holder of `ring`.
    #[inline]
    pub(super) fn recording(&self, number: u64) {
        // ORDER: program order puts it before the call of the record; see `worked`.
        self.state.store(number, Ordering::Release);
    }

    /// Notes that the call of record `number` has returned.
    #[inline]
    pub(super) fn recorded(&self, number: u64) {
        // ORDER: whoever loads it with acquire comes after the call (`present`).
        self.recorded.store(number, Ordering::Release);
    }

    pub(super) fn last_recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Whether record `number` was made, and covers all work that the caller knows of (SEEN-3). The
    /// caller holds `ring`.
    #[inline]
    pub(super) fn is_covered_by(&self, number: u64) -> bool {
        // ORDER: the holder of `ring` alone stores `recorded`.
        self.state.load(Ordering::Acquire) == number && self.recorded.load(Ordering::Relaxed) == number
    }

    /// Whether record `number`, which was made, covers all work that the caller knows of (SEEN-3).
    pub(super) fn ends_with(&self, number: u64) -> bool {
        // ORDER: as in `is_covered_by`.
        self.state.load(Ordering::Acquire) == number
    }

    /// Other code gets the stream's handle, and may enqueue work from now on.
    pub(super) fn expose(&self) {
        // ORDER: code that uses the handle gets it from this call, so it comes after the store. A
        // record that must cover that code's work comes later still.
        self.uncounted.fetch_or(Self::EXPOSED, Ordering::Release);
    }

    /// Whether the device keeps this stream's redundant records and waits.
    pub(super) fn keep_redundant(&self, keep: bool) {
        // ORDER: none is needed: either answer is right at any time.
        match keep {
            true => self.uncounted.fetch_or(Self::KEEPS, Ordering::Relaxed),
            false => self.uncounted.fetch_and(!Self::KEEPS, Ordering::Relaxed),
        };
    }

    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.uncounted.load(Ordering::Acquire) == 0
    }

    /// Copies what the stream has waited for, for record `number`, which the holder of `ring` is
    /// about to make. An entry of `to` that is not copied stays as it was.
    #[inline]
    pub(super) fn snapshot(&self, number: u64, to: &Seen) {
        // The record's leases carry the copy to other threads.
        // ORDER: an old number is harmless: the copy then leaves out what it could say.
        to.copy(&self.seen, self.table.further());
        // ORDER: the holder of `ring` has given the place out.
        let place = self.place.load(Ordering::Relaxed);
        debug_assert_ne!(place, NO_PLACE, "RING-2");
        to.at(place).store(number, Ordering::Relaxed);
    }

    /// Whether `other` is of this clock's table. A place means something in one table only.
    #[inline]
    pub(super) fn has_table_of(&self, other: &Self) -> bool {
        ptr::eq(self.table, other.table)
    }

    /// What is known of `record`, which is of this clock's table, for a wait of this stream.
    #[inline]
    pub(super) fn knows(&self, record: Record<'_>) -> Known {
        // ORDER: the place was given out before the first record, which is what brings the caller
        // here. The acquires put the wait that made an entry true before what the caller does next.
        let place = record.stream.place.load(Ordering::Relaxed);
        if self.seen.at(place).load(Ordering::Acquire) >= record.number {
            Known::Covered
        } else if self.table.over.at(place).load(Ordering::Acquire) >= record.number {
            Known::Over
        } else {
            Known::Nothing
        }
    }

    /// Notes that this stream waits for a record of its table, in whose event is `seen`. The call
    /// of the wait has returned, without an error.
    #[inline(always)]
    pub(super) fn waited(&self, seen: &Seen) {
        self.seen.join(seen, self.table.further());
    }

    /// The places of the streams of this stream's device (TABLE-3).
    #[inline]
    fn places_of_device(&self) -> &Places {
        // ORDER: the number was stored before the stream was used.
        &self.table.places_of[self.device.load(Ordering::Relaxed) % STREAMS]
    }

    /// Notes that the host has seen over what is in `seen`: a wait for this stream, or for a record
    /// of it, has succeeded. Raises the entries of this device's streams only (TABLE-2).
    ///
    /// Counterexample: a closure panics half-way on a GPU, which is lost. Another GPU waits for an
    /// event behind the closure, and the host waits for the other GPU, which is not lost. If the
    /// event were over for the host, the host would read what the closure left half-written.
    fn seen_over(&self, seen: &Seen) {
        let mut places = self.places_of_device().load(Ordering::Relaxed);
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            raise(self.table.over.at(place), seen.at(place).load(Ordering::Relaxed));
        }
    }

    /// What the host will have seen over, once it has waited for all the stream's present work.
    pub(super) fn present(&'static self) -> Present {
        // ORDER: the call of each record and wait found here is before the host's call. It is in
        // the stream, and the host waits for it.
        let number = self.recorded.load(Ordering::Acquire);
        let seen = Seen::default();
        seen.copy(&self.seen, self.table.further());
        if number > 0 {
            seen.at(self.place.load(Ordering::Relaxed))
                .store(number, Ordering::Relaxed);
        }
        Present { stream: self, seen }
    }
}

/// The work of a stream when a host's wait for the stream begins.
pub(super) struct Present {
    stream: &'static Clock,
    seen: Seen,
}

impl Present {
    /// Notes that the wait has ended, without an error (TABLE-2).
    pub(super) fn seen_over(&self) {
        self.stream.seen_over(&self.seen);
    }
}

/// The clocks of streams that wait for each other, and the clock of the host.
///
/// # Invariants
/// TABLE-1. A table in use has one [`InUse`], and no stream, lease or record of the table outlives
/// it. A place in the table, and the number of a device, is given out once in that time.
/// TABLE-2. If `over[s]` is n, record n of the stream at the place s is over, and the device of the
/// stream has said so: a call of the host that waits for the device, or asks it, came behind record
/// n and succeeded.
/// TABLE-3. `places_of[d]` has places of streams of the device d only.
struct Table {
    over: Seen,
    places_of: [Places; STREAMS],
    /// The number of devices.
    devices: AtomicUsize,
    /// The number of streams.
    used: AtomicUsize,
    /// The number of places given out, and of the blocks behind the first that they are in.
    places: AtomicUsize,
    further: AtomicUsize,
    streams: [OnceLock<Clock>; STREAMS],
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} streams)", self.used())
    }
}

impl Table {
    fn new() -> Self {
        Self {
            over: Seen::default(),
            places_of: [const { Places::new(0) }; STREAMS],
            devices: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            places: AtomicUsize::new(0),
            further: AtomicUsize::new(0),
            streams: [const { OnceLock::new() }; STREAMS],
        }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take_place(&self) -> usize {
        // ORDER: counters need none. There are at most as many places as streams.
        let place = self.places.fetch_add(1, Ordering::Relaxed);
        self.further.fetch_max(place / BLOCK, Ordering::Relaxed);
        place
    }

    /// The number of blocks with places behind the first block, perhaps an old one. An entry beyond
    /// them is not copied or raised, which only costs a wait.
    #[inline]
    fn further(&self) -> usize {
        self.further.load(Ordering::Relaxed)
    }

    /// The tables without a user. There are as many tables as were in use at once.
    fn free() -> MutexGuard<'static, Vec<&'static Self>> {
        static FREE: Mutex<Vec<&'static Table>> = Mutex::new(Vec::new());
        // The list is only pushed to and popped from, so a panic leaves it whole.
        FREE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self) {
        self.over.reset();
        for clock in self.streams.iter().filter_map(OnceLock::get) {
            clock.reset();
        }
        for places in &self.places_of {
            places.store(0, Ordering::Relaxed);
        }
        for count in [&self.devices, &self.used, &self.places, &self.further] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Takes the next number below [`STREAMS`] from `counter`, if there is one left.
fn next(counter: &AtomicUsize) -> Option<usize> {
    let next = |count| (count < STREAMS).then_some(count + 1);
    // ORDER: a counter needs none. It stays near `STREAMS`, so it never overflows.
    let relaxed = Ordering::Relaxed;
    counter.fetch_update(relaxed, relaxed, next).ok()
}

/// The use of a table, by devices that can wait for each other. The drop gives the table back.
#[derive(Debug)]
struct InUse(&'static Table);

impl Drop for InUse {
    fn drop(&mut self) {
        // TABLE-1: nothing of the table is used any more. What its streams have seen means nothing
        // to the next ones, whose records are numbered from 1 again.
        self.0.reset();
        Table::free().push(self.0);
    }
}

/// The use of a table by one device. The device's pool of events has it, and each event holds its
/// pool.
#[derive(Debug)]
pub(crate) struct Clocks {
    table: Arc<InUse>,
    /// The device's number in the table.
    device: usize,
}

impl Clocks {
    /// The places that a device should find free. A device that finds fewer gets a table of its
    /// own.
    const ROOM: usize = 8;

    /// Clocks for a device that no other device waits for.
    pub(crate) fn new() -> Self {
        let free = Table::free().pop();
        // A clock is reached by plain references, from each `StreamRef`. So a table is never freed.
        let table = free.unwrap_or_else(|| Box::leak(Box::new(Table::new())));
        table.devices.store(1, Ordering::Relaxed);
        let table = Arc::new(InUse(table));
        Self { table, device: 0 }
    }

    /// Clocks for a device of the table `of`, or of another table if this one is full.
    fn joined(of: &Arc<InUse>) -> Self {
        if of.0.used() + Self::ROOM > STREAMS {
            return Self::new();
        }
        match next(&of.0.devices) {
            None => Self::new(),
            Some(device) => Self {
                table: Arc::clone(of),
                device,
            },
        }
    }

    /// The clocks of a GPU, or of a simulated device that stands in for one.
    pub(crate) fn of_process() -> Self {
        static OF_PROCESS: Mutex<Weak<InUse>> = Mutex::new(Weak::new());
        // The value is consistent after any panic: it changes by one store.
        let mut table = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        let clocks = match table.upgrade() {
            Some(table) => Self::joined(&table),
            None => Self::new(),
        };
        *table = Arc::downgrade(&clocks.table);
        clocks
    }

    /// Clocks for one more device, which the device of these clocks can wait for.
    pub(crate) fn for_another(&self) -> Self {
        Self::joined(&self.table)
    }

    /// A clock for a new stream of the device, if there is one left.
    pub(super) fn stream(&self, raw: RawStream) -> Option<&'static Clock> {
        let table = self.table.0;
        let stream = next(&table.used)?;
        let clock = table.streams[stream].get_or_init(|| Clock::new(table));
        // ORDER: the stream's handle carries the store to other threads.
        clock.device.store(self.device, Ordering::Relaxed);
        clock.raw.store(raw.0, Ordering::Relaxed);
        clock.id.store(StreamId::new().bits(), Ordering::Relaxed);
        Some(clock)
    }
}
