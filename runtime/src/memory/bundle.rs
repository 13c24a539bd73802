//! [`Bundle`] and [`OwnedBy`]: values that move between streams as a whole.

use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, StreamTag};
use cuda_rt_driver::{AccessKind, CallSite};

/// A bundle in its idle form, which a [`Handoff`](crate::Handoff) carries.
///
/// Bundles are buffers, tuples of up to 12 bundles, arrays, `Vec`, `Option`, and structs with
/// `#[derive(Bundle)]`. A bundle moves as a whole, behind one event.
///
/// # Safety
/// The impl is structural: every method converts every part, and drops, duplicates or omits no
/// part. No code of a user runs, except destructors of [`Metadata`](crate::Metadata) in `retire`:
/// its caller holds no lock, and has nothing half-done. No part can be written through `&`. Derive
/// the trait instead.
///
/// ```
/// # cuda_rt::streams! { pub Upload; pub Compute; }
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, PinnedBuffer, Place};
///
/// /// `P` is where all parts are: a stream, or `Idle`.
/// #[derive(Bundle)]
/// struct Frame<P: Place = Idle> {
///     pixels: DeviceBuffer<u8, P>,
///     counts: Vec<DeviceBuffer<u32, P>>,
///     host: Option<PinnedBuffer<u8, P>>,
///     #[bundle(plain)]
///     width: usize,
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (upload, compute) = (gpu.stream::<Upload>()?, gpu.stream::<Compute>()?);
/// let frame = Frame {
///     pixels: upload.alloc_zeroed(64 * 4)?,
///     counts: vec![upload.alloc_zeroed(16)?, upload.alloc_zeroed(16)?],
///     host: None,
///     width: 64,
/// };
/// let pending = upload.release(frame)?; // one event for all parts
/// assert_eq!((pending.peek().width, pending.peek().counts.len()), (64, 2));
/// let mut frame: Frame<Compute> = compute.acquire(pending)?;
/// compute.fill(&mut frame.pixels, 255)?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a bundle of idle buffers",
    label = "cannot be handed over",
    note = "bundles are idle buffers, and tuples, arrays, `Vec`s, `Option`s and `#[derive(Bundle)]` structs of them",
    note = "H01: what a stream owns is not idle, and is handed over: `let handoff = owner.release(buffer)?; let buffer = stream.acquire(handoff)?;`",
    note = "H20: what is in flight is owned, never borrowed: pass the buffer itself, not a reference or a view"
)]
pub unsafe trait Bundle: Sized {
    /// The device that all parts are on.
    type Device: DeviceTag;
    /// The bundle while it is owned by the stream `S`.
    type On<S: StreamTag>: OwnedBy<S>;
    /// The bundle borrowed for reading and writing on `S`. It owns nothing.
    type View<'v, S: StreamTag>;
    /// The bundle borrowed for reading on `S`.
    type Ref<'v, S: StreamTag>;

    /// Gives the bundle to `S`.
    ///
    /// # Safety
    /// `at` is the stream `S` on `Self::Device`, and every use of every part is ordered before its
    /// present end.
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Self::On<S>;

    /// Takes the bundle from a stream, pending.
    ///
    /// # Safety
    /// `S` is a stream on `Self::Device`. The result is not used as idle until every use of every
    /// part is over, and is not dropped until then.
    unsafe fn idle_from<S: StreamTag>(on: Self::On<S>) -> Self;

    /// Views of all parts.
    ///
    /// # Safety
    /// For `'v` the parts are live, ordered before the work of `S` that uses the views, and not
    /// used otherwise.
    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S>;

    /// Read-only views of all parts.
    ///
    /// # Safety
    /// For `'v` the parts are live, writes to them are ordered before the work of `S` that uses the
    /// views, and nothing writes them. Or no stream has the tag `S`, and the parts are live.
    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S>;

    /// Frees every part once `fence` is over; leaks what cannot be freed. Never blocks.
    ///
    /// # Safety
    /// Every use of every part is over once `fence` is.
    unsafe fn retire(self, fence: &mut Fence);

    /// Tells a checker that the host may access the pinned parts from now on, or could until now:
    /// write them, or only read them.
    #[doc(hidden)]
    fn note_host_access(&self, _passed: ToHost) {}
}

/// The call by which a bundle passes to the host or from it. Only this crate makes a value, so
/// other crates cannot report a passage that did not take place.
#[derive(Clone, Copy, Debug)]
pub struct ToHost {
    pub(crate) passed: CallSite,
    pub(crate) access: AccessKind,
}

impl ToHost {
    /// By `passed` the host comes to write, or ceases to.
    pub(crate) fn writes(passed: CallSite) -> Self {
        let access = AccessKind::Write;
        Self { passed, access }
    }

    /// By `passed` the host comes to read only, or ceases to.
    pub(crate) fn reads(passed: CallSite) -> Self {
        Self::writes(passed).only_reads()
    }

    /// The same passage, of memory that the host may only read.
    pub(crate) fn only_reads(self) -> Self {
        let access = AccessKind::Read;
        Self { access, ..self }
    }
}

/// A bundle whose parts all belong to the stream `S`. [`Stream::release`](crate::Stream::release)
/// takes it.
///
/// # Safety
/// The impl is structural, as for [`Bundle`], and every part is owned by `S`.
#[diagnostic::on_unimplemented(
    message = "stream `{S}` does not own `{Self}`",
    label = "`{S}` cannot release this: it is only borrowed, or belongs to another stream, or to none",
    note = "H06: a stream releases what it owns, every part of it: release each part on the stream that owns it, \
            or move it first: `let buffer = stream.acquire(owner.release(buffer)?)?;`",
    note = "what is idle needs no release: `let buffer = stream.adopt(buffer)?;`",
    note = "H20: a borrow cannot be released: release the buffer itself. A pipeline's stage only borrows: use its own `stream`, \
            or add a stage on the other stream",
    note = "H05: if a closure acquired this, write the type of the closure's parameter: `|handoff: Handoff<DeviceBuffer<f32>>| ..`"
)]
pub unsafe trait OwnedBy<S: StreamTag>: Sized {
    /// The bundle in its idle form.
    type Idle: Bundle<Device = S::Device>;

    /// Takes the bundle from `S`, pending.
    ///
    /// # Safety
    /// The result is not used as idle until every use of every part is over, and is not dropped
    /// until then.
    unsafe fn detach(self) -> Self::Idle;
}
