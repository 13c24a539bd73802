//! [`Ring`]: a fixed number of slots that go round.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use super::clock::HostClock;
use cuda_rt_runtime::Bundle;
use cuda_rt_runtime::Device;
use cuda_rt_runtime::Handoff;
use cuda_rt_runtime::Slot;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::{Error, Result};
use cuda_rt_runtime::{Live, StreamTag};

/// A slot on its way home, and when it was sent.
type Homing<R> = (Slot<R>, u64);

/// N bundles, of which each is at home or out for one [`SlotGuard`].
///
/// ```text
///            ┌───────────── dropping the turn ◀──────────────┐
///            ▼                                               │
///   Ring ── take ──▶ SlotGuard ── on(&upload) ── on(&compute) ── host ──▶ …
///  (waits for a slot)        each use waits, on the GPU or on the host, for the one before
/// ```
///
/// A turn moves between threads, and its bundle between streams: each use goes through a [`Slot`],
/// so it waits for the use before it and for nothing else. The slot is home again when the turn is
/// dropped: not when its work is *done*, but the next use of the slot waits for that work, on the
/// GPU. So no thread waits for the GPU that need not.
///
/// Counterexample that it exists for: two pinned buffers used by `index % 2`. When the thread that
/// writes them to disk is slow once, the download of item 2 fills the buffer that item 0 is being
/// written from, and the file holds parts of both (H17, H19). Here item 2 has no buffer to name
/// before item 0's turn is over.
///
/// # Hazards prevented
/// H17, H19. A leaked turn ([`std::mem::forget`]) is a slot that never comes home, and no more
/// (H22).
///
/// ```
/// use cuda_rt::{Device, Handoff, pipeline::Ring};
/// cuda_rt::streams! { Upload; Compute; }
///
/// let gpu = Device::open_or_simulate()?;
/// let (upload, compute) = (gpu.stream::<Upload>()?, gpu.stream::<Compute>()?);
/// let slots = (0..2).map(|_| upload.release(upload.alloc_zeroed::<u32>(64)?));
/// let ring = Ring::new(&gpu, slots.collect::<Result<Vec<_>, _>>()?);
/// for round in 0..10 {
///     let mut turn = ring.take(); // the third waits for the first to be dropped
///     turn.on(&upload, |buffer| upload.fill(buffer, round))??;
///     turn.on(&compute, |buffer| compute.fill(&mut buffer[..1], 0))??;
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Ring<R: Bundle> {
    free: Receiver<Homing<R>>,
    home: SyncSender<Homing<R>>,
    slots: usize,
    clock: HostClock,
}

impl<R: Bundle> fmt::Debug for Ring<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl<R: Bundle> Ring<R>
where
    R::Device: Live,
{
    /// A ring of these bundles, all at home.
    pub fn new(gpu: &Device<R::Device>, bundles: Vec<Handoff<R>>) -> Self {
        let slots = bundles.len();
        // Room for all, so that no way home ever blocks.
        let (home, free) = sync_channel(slots.max(1));
        let clock = HostClock::of(gpu);
        for bundle in bundles {
            home.try_send((Slot::from(bundle), clock.now_ns()))
                .expect("the channel has room for all, and its end is here");
        }
        Self {
            free,
            home,
            slots,
            clock,
        }
    }

    /// How many slots there are, at home and out.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot that has been at home for longest. Blocks the host while all are out; for ever if
    /// they were leaked, or if the calling thread itself holds them.
    ///
    /// # Panics
    /// If the ring has no slots.
    pub fn take(&self) -> SlotGuard<R> {
        assert!(self.slots > 0, "a ring without slots");
        let homing = self.free.recv().expect("the ring itself holds an end");
        self.turn(homing)
    }

    /// As [`take`](Self::take), but `None` while all slots are out.
    pub fn try_take(&self) -> Option<SlotGuard<R>> {
        match self.free.try_recv() {
            Ok(homing) => Some(self.turn(homing)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn turn(&self, (slot, sent_ns): Homing<R>) -> SlotGuard<R> {
        self.clock.catch_up(sent_ns);
        SlotGuard {
            slot: Some(slot),
            home: self.home.clone(),
            clock: self.clock.clone(),
        }
    }
}

/// One slot of a [`Ring`], out: only its holder can use it, on any stream and any thread, for as
/// long as it likes.
///
/// Dropping it sends the slot home. Work that is still pending is not waited for: whoever takes the
/// slot next waits for it.
#[must_use = "dropping a turn sends its slot home"]
pub struct SlotGuard<R: Bundle> {
    /// `None` while it is being dropped.
    slot: Option<Slot<R>>,
    home: SyncSender<Homing<R>>,
    clock: HostClock,
}

impl<R: Bundle> fmt::Debug for SlotGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotGuard")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl<R: Bundle> SlotGuard<R>
where
    R::Device: Live,
{
    fn slot(&mut self) -> Result<&mut Slot<R>> {
        self.slot.as_mut().ok_or(Error::SlotEmpty)
    }

    /// Acquires the bundle on `stream`, lends it to `body`, and releases it: [`Slot::on`].
    /// Stream-ordered.
    ///
    /// # Errors
    /// As [`Slot::on`].
    pub fn on<S: StreamTag<Device = R::Device>, O>(
        &mut self,
        stream: &Stream<S>,
        body: impl FnOnce(&mut R::On<S>) -> O,
    ) -> Result<O> {
        self.slot()?.on(stream, body)
    }

    /// Blocks the host until the work on the bundle is over, and lends it, idle, to `body`:
    /// [`Slot::host`].
    ///
    /// # Errors
    /// As [`Slot::host`].
    pub fn host<O>(&mut self, body: impl FnOnce(&mut R) -> O) -> Result<O> {
        self.slot()?.host(body)
    }
}

impl<R: Bundle> Drop for SlotGuard<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // There is room for every slot. Where the ring is gone the bundle is freed behind its
            // work.
            let _ = self.home.try_send((slot, self.clock.now_ns()));
        }
    }
}
