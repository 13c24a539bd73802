//! [`Ring`]: a fixed number of slots that are used again and again.

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

/// A slot that was returned to the ring, and the time of its return.
type Returned<R> = (Slot<R>, u64);

/// N bundles in slots. Each slot is either free or held by one [`SlotGuard`].
///
/// ```text
///            ┌──────────── dropping the guard ◀──────────────┐
///            ▼                                               │
///   Ring ── take ──▶ SlotGuard ── on(&upload) ── on(&compute) ── host ──▶ …
///  (waits for a slot)        each use waits, on the GPU or on the host, for the one before
/// ```
///
/// A guard moves between threads, and its bundle between streams. Each use goes through a [`Slot`],
/// so it waits for the previous use and for nothing more. The slot is free when the guard is
/// dropped, even if its work is still pending: the next use of the slot waits for that work, on the
/// GPU. So no thread waits for the GPU without need.
///
/// Counterexample: two pinned buffers are chosen by `index % 2`, and a thread writes them to disk.
/// When that thread is slow once, the download of item 2 fills the buffer while item 0 is being
/// written from it, and the file holds parts of both ([H17](cuda_rt_runtime::hazards#h17),
/// [H19](cuda_rt_runtime::hazards#h19)). Here item 2 has no buffer before item 0's guard is
/// dropped.
///
/// # Hazards prevented
/// [H17](cuda_rt_runtime::hazards#h17), [H19](cuda_rt_runtime::hazards#h19). A leaked guard
/// ([`std::mem::forget`]) only makes the ring smaller by its slot
/// ([H22](cuda_rt_runtime::hazards#h22)).
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
///     let mut slot = ring.take(); // the third waits for the first to be dropped
///     slot.on(&upload, |buffer| upload.fill(buffer, round))??;
///     slot.on(&compute, |buffer| compute.fill(&mut buffer[..1], 0))??;
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Ring<R: Bundle> {
    free: Receiver<Returned<R>>,
    returns: SyncSender<Returned<R>>,
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
    /// A ring of these bundles, all of them free.
    pub fn new(gpu: &Device<R::Device>, bundles: Vec<Handoff<R>>) -> Self {
        let slots = bundles.len();
        // The channel has room for all slots, so returning a slot never blocks.
        let (returns, free) = sync_channel(slots.max(1));
        let clock = HostClock::of(gpu);
        for bundle in bundles {
            returns
                .try_send((Slot::from(bundle), clock.now_ns()))
                .expect("the channel has room for all, and its end is here");
        }
        Self {
            free,
            returns,
            slots,
            clock,
        }
    }

    /// Number of slots, free and held.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Takes the slot that has been free for longest. Blocks the host while all slots are held; for
    /// ever if their guards were leaked, or if the calling thread holds them itself.
    ///
    /// # Panics
    /// If the ring has no slots.
    pub fn take(&self) -> SlotGuard<R> {
        assert!(self.slots > 0, "a ring without slots");
        let returned = self.free.recv().expect("the ring itself holds an end");
        self.guard(returned)
    }

    /// Like [`take`](Self::take), but returns `None` while all slots are held. Never blocks.
    pub fn try_take(&self) -> Option<SlotGuard<R>> {
        match self.free.try_recv() {
            Ok(returned) => Some(self.guard(returned)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn guard(&self, (slot, sent_ns): Returned<R>) -> SlotGuard<R> {
        self.clock.catch_up(sent_ns);
        SlotGuard {
            slot: Some(slot),
            returns: self.returns.clone(),
            clock: self.clock.clone(),
        }
    }
}

/// A slot taken from a [`Ring`]: only its holder can use the slot, on any stream and any thread,
/// for as long as it likes.
///
/// Dropping the guard returns the slot to the ring, without waiting for pending work. The next use
/// of the slot waits for that work.
///
/// ```
/// # cuda_rt::streams! { Upload; }
/// use cuda_rt::Handoff;
/// use cuda_rt::pipeline::Ring;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let upload = gpu.stream::<Upload>()?;
/// let ring = Ring::new(&gpu, vec![Handoff::ready(gpu.pinned::<u32>(4)?)]);
/// let mut device = upload.alloc_zeroed::<u32>(4)?;
/// for item in 0..3 {
///     let mut slot = ring.take();
///     slot.host(|pinned| pinned.fill(item))?; // waits for the slot's last upload
///     slot.on(&upload, |pinned| upload.copy_to_device(pinned, &mut device))??;
///     assert!(ring.try_take().is_none()); // the only slot is in use
/// }
/// assert_eq!((ring.slots(), upload.copy_to_vec(&device)?), (1, vec![2; 4]));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "dropping a slot guard returns its slot to the ring"]
pub struct SlotGuard<R: Bundle> {
    /// `None` while the guard is being dropped.
    slot: Option<Slot<R>>,
    returns: SyncSender<Returned<R>>,
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
            // The channel has room for every slot. If the ring is gone, the bundle is freed behind
            // its work.
            let _ = self.returns.try_send((slot, self.clock.now_ns()));
        }
    }
}
