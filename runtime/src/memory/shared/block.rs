//! [`Block`]: a shared bundle, with the end of its writes and the ends of its reads.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::device::core::DeviceCore;
use crate::memory::Bundle;
use crate::order::event_pool::EventLease;
use crate::order::fence::Fence;
use crate::order::last_uses::LastUses;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use cuda_rt_driver::DriverResult;

/// A bundle that many streams and the host read, and that nothing writes.
///
/// # Invariants
/// SHARED-1. Writes to the bundle are over, or ordered before `written`. Nothing writes it while
/// the block exists.
/// SHARED-2. Every read by an ended lease is over, or ordered before an end in `readers`.
/// SHARED-3. A lease that has not ended holds the block.
pub(super) struct Block<R: Bundle> {
    bundle: ManuallyDrop<R>,
    written: Written,
    readers: Mutex<Readers>,
}

/// The end of the writes to a shared bundle.
pub(super) enum Written {
    /// The fence is over when the writes are over.
    Behind(Fence),
    /// The writes are ordered before the present end of a stream, which still exists.
    On(Writer),
}

/// The stream that shared the bundle. It is no adopted stream, which could be destroyed by now.
pub(super) struct Writer {
    at: StreamRef,
    /// Keeps the stream (CORE-1).
    core: Arc<DeviceCore>,
    /// An event of this stream, recorded after the writes. Empty until another stream or the host
    /// needs it.
    event: OnceLock<Fence>,
}

/// The ends of the reads.
#[derive(Default)]
struct Readers {
    /// Whether a lease has ended on the writer's stream. Its reads are ordered before the present
    /// end of that stream, and no event is recorded.
    on_writer: bool,
    others: LastUses,
}

impl Written {
    /// The writes end at the present end of `at`, a stream of `core`. `event` was recorded there
    /// after the writes, or nothing was recorded yet.
    pub(super) fn on(at: StreamRef, core: &Arc<DeviceCore>, event: Option<EventLease>) -> DriverResult<Self> {
        if at.is_adopted() {
            let event = event.map_or_else(|| core.events().record(at, false), Ok)?;
            return Ok(Self::Behind(event.into()));
        }
        Ok(Self::On(Writer {
            at,
            core: Arc::clone(core),
            event: event.map_or_else(OnceLock::new, |event| OnceLock::from(Fence::from(event))),
        }))
    }

    fn writer(&self) -> Option<&Writer> {
        match self {
            Self::On(writer) => Some(writer),
            Self::Behind(_) => None,
        }
    }

    /// The fence that is over when the writes are over. The first call may record it.
    fn fence(&self) -> DriverResult<&Fence> {
        let writer = match self {
            Self::Behind(fence) => return Ok(fence),
            Self::On(writer) => writer,
        };
        if let Some(event) = writer.event.get() {
            return Ok(event);
        }
        let event = writer.core.events().record(writer.at, false)?;
        // Of two threads one comes second. Its event returns to the pool: both came after the
        // writes.
        Ok(writer.event.get_or_init(|| event.into()))
    }
}

impl<R: Bundle> Block<R> {
    /// # Safety
    /// SHARED-1 holds for `bundle` and `written`.
    pub(super) unsafe fn new(bundle: R, written: Written) -> Self {
        Self {
            bundle: ManuallyDrop::new(bundle),
            written,
            readers: Mutex::default(),
        }
    }

    pub(super) fn bundle(&self) -> &R {
        &self.bundle
    }

    /// Makes `at` wait for the writes (`cuStreamWaitEvent`). Calls nothing if they were made on
    /// `at`: a stream runs its work in order.
    pub(super) fn writes_before(&self, at: StreamRef) -> DriverResult<()> {
        match self.written.writer() {
            Some(writer) if writer.at.id() == at.id() => Ok(()),
            _ => self.written.fence()?.wait_on(at),
        }
    }

    /// Blocks the host until the writes are over (`cuEventSynchronize`).
    pub(super) fn synchronize_writes(&self) -> DriverResult<()> {
        self.written.fence()?.synchronize()
    }

    /// Notes that the reads of a lease end at the present end of `at`, a stream of `core`
    /// (`cuEventRecord`). Records nothing if `at` is the writer's stream.
    pub(super) fn ends_on(&self, at: StreamRef, core: &DeviceCore) {
        let mut readers = self.readers();
        if self
            .written
            .writer()
            .is_some_and(|writer| writer.at.id() == at.id())
        {
            readers.on_writer = true;
            return;
        }
        readers.others.note(|others| {
            if at.is_adopted() {
                others.tidy();
            }
            others.on(core.events(), at);
        });
    }

    /// Notes that the reads of a lease end when `fence` is over.
    pub(super) fn ends_behind(&self, fence: &mut Fence) {
        self.readers().others.note(|others| {
            others.tidy();
            others.behind(fence.share());
        });
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        // The value is consistent after any panic: each step of `LastUses` is one assignment.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fence that is over when every write and read is over. It may be the end of the writer's
    /// stream, for which nothing is recorded. Memory that is `freed`, and that no other stream has
    /// read, always ends there: this stream can free it.
    fn last_uses(&mut self, freed: bool) -> Fence {
        let readers = std::mem::take(self.readers.get_mut().unwrap_or_else(PoisonError::into_inner));
        let others = readers.others.into_fence();
        let written = match &mut self.written {
            Written::Behind(fence) => fence.share(),
            Written::On(writer) => match writer.event.take() {
                // The event is earlier than the stream's present end.
                Some(event) if !(readers.on_writer || freed && others.is_done()) => event,
                _ => Fence::end_of(writer.at, writer.core.events()),
            },
        };
        // SHARED-1 and SHARED-2: the readers waited for the writes, but there may be none.
        Fence::all([written, others])
    }

    /// The bundle, and the fence of its uses, with an event for each end.
    pub(super) fn into_parts(self) -> (R, Fence) {
        // If a record unwinds, the bundle is leaked.
        let mut block = ManuallyDrop::new(self);
        let fence = block.last_uses(false).recorded();
        // SAFETY: this takes the bundle once: the block is neither used nor dropped after this.
        let bundle = unsafe { ManuallyDrop::take(&mut block.bundle) };
        // If a drop of an event below unwinds, the bundle is leaked: its type calls it idle.
        let bundle = Leaked::new(bundle);
        // SAFETY: this drops the field once, as above.
        unsafe { std::ptr::drop_in_place(&mut block.written) };
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(&mut block.readers) };
        (bundle.take_back(), fence)
    }
}

impl<R: Bundle> Drop for Block<R> {
    fn drop(&mut self) {
        // If a record unwinds, the bundle is leaked.
        let mut fence = self.last_uses(true);
        // SAFETY: this takes the bundle once: nothing uses the block after its drop.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: SHARED-3: no lease is left. By SHARED-1 and SHARED-2 every use is over once the
        // fence is. The writer's core, which the fence may need, is dropped after this.
        unsafe { bundle.retire(&mut fence) }
    }
}
