//! [`Slot`]: a bundle in a struct field or a ring.

use std::fmt;

use crate::error::{Error, Result};
use crate::memory::Bundle;
use crate::order::handoff::Handoff;
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};

/// A bundle that stays in one place while its ownership moves: each call acquires it, lends it to a
/// closure, and releases it.
///
/// A buffer changes its type when it moves between streams, and a struct field cannot. A slot keeps
/// the handoff between two steps. A use of the slot waits for the slot's earlier uses, and for
/// nothing else ([H19](crate::hazards#h19)).
///
/// ```
/// # cuda_rt::streams! { pub Upload; pub Compute; }
/// use cuda_rt::{PinnedBuffer, Slot, Stream};
///
/// struct Uploader {
///     stream: Stream<Upload>,
///     /// Two buffers, used in turn: the second is filled while the first is copied.
///     staging: [Slot<PinnedBuffer<u32>>; 2],
/// }
///
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let mut uploader = Uploader {
///     stream: gpu.stream()?,
///     staging: [Slot::new(gpu.pinned(4)?), Slot::new(gpu.pinned(4)?)],
/// };
/// let mut data = uploader.stream.alloc_zeroed::<u32>(4)?;
/// for item in 0..6 {
///     let slot = &mut uploader.staging[item as usize % 2];
///     slot.host(|staging| staging.fill(item))?; // waits for this slot's last upload only
///     slot.on(&uploader.stream, |staging| uploader.stream.copy_to_device(staging, &mut data))??;
///     assert_eq!(slot.peek().expect("no call has failed").len(), 4);
/// }
/// assert_eq!(uploader.stream.copy_to_vec(&data)?, [5; 4]);
///
/// let [first, _second] = uploader.staging;
/// let first = gpu.stream::<Compute>()?.acquire(first.into_handoff()?)?; // out of the slot
/// assert_eq!(first.len(), 4);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Slot<R: Bundle> {
    /// `None` while a closure runs, and after an error that lost the bundle.
    pending: Option<Handoff<R>>,
}

impl<R: Bundle> fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("pending", &self.pending).finish()
    }
}

impl<R: Bundle> From<Handoff<R>> for Slot<R> {
    fn from(pending: Handoff<R>) -> Self {
        Self {
            pending: Some(pending),
        }
    }
}

/// Releases the bundle into the slot when the closure returns or panics.
struct Return<'a, S: StreamTag, R: Bundle> {
    slot: &'a mut Option<Handoff<R>>,
    stream: &'a Stream<S>,
    bundle: Option<R::On<S>>,
}

impl<S: StreamTag, R: Bundle> Return<'_, S, R> {
    fn finish(&mut self) -> Result<()> {
        let Some(bundle) = self.bundle.take() else {
            return Ok(());
        };
        // The record comes first: on an error the bundle still belongs to the stream, and is
        // dropped in the stream's order.
        let lease = self.stream.record("Slot::on")?;
        // SAFETY: `Slot::on` takes streams of the bundle's device only; the bundle goes into a
        // handoff behind an event recorded after every use.
        let bundle = unsafe { R::idle_from(bundle) };
        // SAFETY: HANDOFF-1: the bundle belonged to the stream, so every use is in the stream's
        // order, before the event.
        *self.slot = Some(unsafe { Handoff::pending(bundle, lease.into()) });
        Ok(())
    }
}

impl<S: StreamTag, R: Bundle> Drop for Return<'_, S, R> {
    fn drop(&mut self) {
        // Work is left to do only after a panic. An error then leaves the slot empty, and later
        // calls report that.
        let _ = self.finish();
    }
}

impl<R: Bundle> Slot<R> {
    pub(super) fn pending(&self) -> Option<&Handoff<R>> {
        self.pending.as_ref()
    }
}

impl<R: Bundle> Slot<R>
where
    R::Device: Live,
{
    /// A slot that holds an idle bundle.
    pub fn new(idle: R) -> Self {
        Self::from(Handoff::ready(idle))
    }

    /// Acquires the bundle on `stream`, lends it to `body`, and releases it. Stream-ordered; the
    /// host does not wait.
    ///
    /// # Errors
    /// [`Error::SlotEmpty`] if an earlier call lost the bundle, [`Error::Driver`] if the wait or
    /// the record fails. A failed wait leaves the slot unchanged; a failed record empties it.
    pub fn on<S: StreamTag<Device = R::Device>, O>(
        &mut self,
        stream: &Stream<S>,
        body: impl FnOnce(&mut R::On<S>) -> O,
    ) -> Result<O> {
        let handoff = self.pending.take().ok_or(Error::SlotEmpty)?;
        let bundle = match stream.try_acquire(handoff) {
            Ok(bundle) => bundle,
            Err(refused) => {
                self.pending = Some(refused.value);
                return Err(refused.error);
            }
        };
        let mut lent = Return {
            slot: &mut self.pending,
            stream,
            bundle: Some(bundle),
        };
        let output = lent.bundle.as_mut().map(body).ok_or(Error::SlotEmpty)?;
        lent.finish()?;
        Ok(output)
    }

    /// Blocks the host until the work on the bundle is over (`cuEventSynchronize`), and lends it,
    /// idle, to `body`.
    ///
    /// # Errors
    /// [`Error::SlotEmpty`] if an earlier call lost the bundle, [`Error::Driver`] if the wait
    /// fails. A failed wait leaves the slot unchanged.
    pub fn host<O>(&mut self, body: impl FnOnce(&mut R) -> O) -> Result<O> {
        let handoff = self.pending.take().ok_or(Error::SlotEmpty)?;
        match handoff.try_synchronize() {
            Ok(idle) => {
                let idle = self.pending.insert(Handoff::ready(idle));
                Ok(body(idle.idle_mut()))
            }
            Err(refused) => {
                self.pending = Some(refused.value);
                Err(refused.error)
            }
        }
    }

    /// Takes the bundle out, pending.
    ///
    /// # Errors
    /// [`Error::SlotEmpty`] if an earlier call lost it.
    pub fn into_handoff(self) -> Result<Handoff<R>> {
        self.pending.ok_or(Error::SlotEmpty)
    }
}
