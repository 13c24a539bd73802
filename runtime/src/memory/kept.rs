//! [`Kept`]: a bundle that its stream keeps, and that remembers the stream.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::device::AnyDevice;
use crate::error::{During, Result};
use crate::memory::{Bundle, DeviceBuffer, DeviceSlice, PinnedBuffer, PinnedSlice, ToHost};
use crate::order::stream_ref::StreamRef;
use crate::stream::AnyStream;
use crate::tag::{Idle, NoStream, OnHost, Place, StreamTag};
use cuda_rt_driver::CallSite;

/// A bundle that a stream keeps: it remembers its stream at run time, instead of naming it by its
/// type. So it can be in a struct, a `Vec` or a map, whichever stream it is on.
///
/// [`Stream::keep`](crate::Stream::keep) makes one, and [`Stream::open`](crate::Stream::open) gives
/// the bundle back to the same stream. [`AnyStream`] shows both, and what other streams may do.
///
/// `R` is the type of the bundle with `Idle<AnyDevice>` in the place of its stream: a stream `S`
/// keeps a `DeviceBuffer<f32, S>` as a `Kept<DeviceBuffer<f32, Idle<AnyDevice>>>`. Other parameters
/// of the bundle stay as they are. A [`Constant`](crate::Constant), for example, still names its
/// own device: `Kept<Constant<DeviceBuffer<f32, Idle<D>>, Idle<AnyDevice>>>`. In [`AnyStream::run`]
/// that device is a brand, and nothing with a brand leaves the closure; in [`AnyStream::run_on`] it
/// is the `D` of a [`Device`](crate::Device).
///
/// Dropping it frees the bundle in the order of its stream, as a buffer's drop does, and does not
/// block. It holds its stream, and leaking it leaks both ([H22](crate::hazards#h22)).
///
/// # Hazards prevented
/// [H01](crate::hazards#h01)–[H03](crate::hazards#h03), [H06](crate::hazards#h06): a stream uses
/// the bundle only after the comparison has shown that the stream keeps it, or behind an event.
/// [H13](crate::hazards#h13), [H14](crate::hazards#h14): the host uses it in [`host`](Self::host)
/// only. [H36](crate::hazards#h36): the device is compared too.
//
// # Invariants
// KEPT-1. `bundle` is on the device of `stream`, and owned by `stream`: every use is in its order.
#[must_use = "dropping it frees the bundle, in the order of its stream"]
pub struct Kept<R: Bundle<Device = AnyDevice>> {
    bundle: ManuallyDrop<R>,
    stream: AnyStream,
}

/// The tag under which a kept bundle is freed: the stream that the bundle's value knows. No
/// [`Stream`](crate::Stream) has it, and no value with it lives longer than one drop.
struct KeptBy;
// SAFETY: it names no stream, and the device by the definition of `AnyDevice`.
unsafe impl Place for KeptBy {
    type Device = AnyDevice;
}
// SAFETY: no stream has this tag.
unsafe impl StreamTag for KeptBy {}

impl<R: Bundle<Device = AnyDevice>> Kept<R> {
    /// # Safety
    /// KEPT-1 holds for `bundle` and `stream`.
    #[inline]
    pub(crate) unsafe fn new(bundle: R, stream: AnyStream) -> Self {
        Self {
            bundle: ManuallyDrop::new(bundle),
            stream,
        }
    }

    #[inline]
    pub(crate) fn at(&self) -> StreamRef {
        self.stream.at()
    }

    /// The bundle, and the stream that keeps it. The bundle's type calls it idle: the caller gives
    /// it to a stream that is ordered behind the uses.
    #[inline]
    pub(crate) fn into_parts(self) -> (R, AnyStream) {
        let mut kept = ManuallyDrop::new(self);
        // SAFETY: the bundle is taken once: `kept` is neither used nor dropped after this.
        let bundle = unsafe { ManuallyDrop::take(&mut kept.bundle) };
        // SAFETY: as above; the reference is to a live field.
        let stream = unsafe { std::ptr::read(&raw const kept.stream) };
        (bundle, stream)
    }

    /// Views of the bundle for `'v`.
    ///
    /// # Safety
    /// As for [`Bundle::view`].
    #[inline]
    pub(crate) unsafe fn views<'v, S: StreamTag>(&mut self) -> R::View<'v, S> {
        // SAFETY: this function has the contract of [`Bundle::view`].
        unsafe { self.bundle.view() }
    }

    /// Views of the bundle for `'v`, for reading.
    ///
    /// # Safety
    /// As for [`Bundle::by_ref`].
    #[inline]
    pub(crate) unsafe fn refs<'v, S: StreamTag>(&self) -> R::Ref<'v, S> {
        // SAFETY: this function has the contract of [`Bundle::by_ref`].
        unsafe { self.bundle.by_ref() }
    }

    /// The stream that keeps the bundle.
    #[inline]
    pub fn stream(&self) -> &AnyStream {
        &self.stream
    }

    /// Views of all parts that show lengths and plain fields only, as
    /// [`Handoff::peek`](crate::Handoff::peek) gives them.
    pub fn peek(&self) -> R::Ref<'_, NoStream<AnyDevice>> {
        // SAFETY: no stream has the tag `NoStream`, and the borrowed value keeps the parts.
        unsafe { self.bundle.by_ref() }
    }

    /// Blocks the host until the work that the stream has so far is over (`cuEventRecord`,
    /// `cuEventSynchronize`), and lends views of the bundle to `body`. The elements of pinned parts
    /// are a `&mut [T]` there; device memory has a length only. Stays kept by its stream.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14): no work that uses the bundle is
    /// pending, nor enqueued while `body` runs.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the wait fails. `body` is then not called, and
    /// the bundle is unchanged.
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// let gpu = AnyDevice::open_or_simulate(0)?;
    /// let stream = gpu.create_stream("downloads", Priority::Low)?;
    /// let mut kept = stream.run(|s| {
    ///     let squares = s.alloc_from_slice(&[0_u32, 1, 4, 9])?;
    ///     let mut host = s.adopt(s.device().pinned::<u32>(4)?)?;
    ///     s.copy_to_host(&squares, &mut host)?;
    ///     Ok::<_, Error>(s.keep(host))
    /// })?;
    /// let sum: u32 = kept.host(|host| host.as_slice().iter().sum())?;
    /// assert_eq!(sum, 14);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn host<O>(&mut self, body: impl for<'v> FnOnce(R::View<'v, OnHost<AnyDevice>>) -> O) -> Result<O> {
        const DURING: &str = "Kept::host";
        let core = self.stream.core();
        core.check().during(DURING)?;
        let uses = core.events().record(self.at(), false).during(DURING)?;
        uses.synchronize().during(DURING)?;
        self.bundle
            .note_host_access(ToHost::writes(CallSite::here(DURING)));
        // SAFETY: KEPT-1: every use is in the order of the stream, and over, because the wait above
        // has returned. No stream has the tag `OnHost`. The value is borrowed uniquely, so no work
        // that uses the bundle is enqueued while the views exist.
        let output = body(unsafe { self.views() });
        self.bundle
            .note_host_access(ToHost::writes(CallSite::here("end of Kept::host")));
        Ok(output)
    }
}

macro_rules! dereferenced {
    ($($buffer:ident as $slice:ident;)*) => { $(
        /// As [`Kept::peek`]: lengths, and no memory. So methods and functions that need a stream's
        /// memory, or the host's, are refused with the hazard and the mend.
        impl<T> Deref for Kept<$buffer<T, Idle<AnyDevice>>> {
            type Target = $slice<T, NoStream<AnyDevice>>;

            fn deref(&self) -> &$slice<T, NoStream<AnyDevice>> {
                self.peek().into_slice()
            }
        }
    )* };
}

dereferenced! {
    DeviceBuffer as DeviceSlice;
    PinnedBuffer as PinnedSlice;
}

impl<R: Bundle<Device = AnyDevice>> fmt::Debug for Kept<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bundle is left out: a user's `Debug` must not see a pending bundle.
        f.debug_struct("Kept")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl<R: Bundle<Device = AnyDevice>> Drop for Kept<R> {
    fn drop(&mut self) {
        // SAFETY: the bundle is taken once: nothing uses it after this drop.
        let bundle = unsafe { ManuallyDrop::take(&mut self.bundle) };
        // SAFETY: KEPT-1: every use is in the order of the stream, so before its present end. The
        // result is dropped at once, which frees it in that order.
        drop(unsafe { bundle.attach::<KeptBy>(self.stream.at()) });
    }
}
