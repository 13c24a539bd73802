//! [`Stream`], the handle that enqueues work. It moves ownership in and out, allocates, copies and
//! fills.
//!
//! A stream waits for a handoff in [`Stream::acquire`], which stands here. Copies to other devices
//! are in `peer_copy`, copies to ordinary memory in `host_copy`, host functions in `host_fn`, loans
//! in `lend`, pinned memory for kernels in `mapped`. Streams that are known at run time are in
//! `any`, and what they keep in `keep`. Kernels, graphs and events are beside their types.
//!
//! The methods stand in this file, beside their type: rustc's messages name a method by its module.

mod any;
mod host_copy;
mod host_fn;
mod keep;
mod lend;
mod managed;
mod mapped;
mod peer_copy;
mod peer_loan;
mod pool;
mod rows;

pub use any::{AnyStream, Branded, Lasting};
pub use keep::{IdleOnAny, KeptOf};
pub use mapped::MappedOutput;
pub use pool::{Pooled, StreamPool};

use std::any::type_name;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::device::call::Call;
use crate::device::core::DeviceCore;
use crate::error::{During, Error, Refused, Result};
use crate::memory::{
    Bundle, DeviceBlock, DeviceBuffer, DeviceSlice, Element, OwnedBy, PinnedBuffer, PinnedSlice, ToHost,
    size_in_bytes,
};
use crate::order::event_pool::EventLease;
use crate::order::handoff::Handoff;
use crate::order::handoff::sealed::Released;
use crate::order::stream_ref::StreamRef;
use crate::order::timed_event::TimedEvent;
use crate::tag::{Live, ReadBy, SameAs, StreamTag, WriteBy};
use cuda_rt_driver::{CallSite, DeviceAddress, Kind};

/// *The* stream that `S` names on its device: every handle with this type is one CUDA stream, so
/// the type alone proves that work given to it runs in order.
///
/// It is never the default stream, and does not block on it. It is cheap to clone and usable from
/// any thread: work from several threads runs in the order in which their calls took place.
///
/// Operations are *stream-ordered* unless they say that they block: they are enqueued, return at
/// once, and run after all earlier work of the stream.
///
/// ```
/// use cuda_rt::{Device, Error};
///
/// cuda_rt::streams! { pub Compute; pub Download; }
///
/// let gpu = Device::open_or_simulate()?;
/// let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
/// assert_eq!(compute.device().properties().name, gpu.properties().name);
///
/// // Enqueued, and not waited for: the memory exists, is filled and is copied in this order.
/// let mut data = compute.init_filled(compute.alloc_uninit::<u32>(8)?, 1)?;
/// compute.fill(&mut data[4..], 2)?;
/// let copy = compute.init_from(compute.alloc_uninit(8)?, &data)?;
///
/// // Another stream gets the memory behind an event. The copy to the host is enqueued there.
/// let copy = download.acquire(compute.release(copy)?)?;
/// let host = download.init_host_from(download.adopt(gpu.pinned_uninit(8)?)?, &copy)?;
/// let host = download.release(host)?.synchronize()?; // the host waits here only
/// assert_eq!(host[..], [1, 1, 1, 1, 2, 2, 2, 2]);
/// # Ok::<(), Error>(())
/// ```
pub struct Stream<S> {
    at: StreamRef,
    core: Arc<DeviceCore>,
    tag: PhantomData<fn(S) -> S>,
}

impl<S> Clone for Stream<S> {
    fn clone(&self) -> Self {
        Self {
            at: self.at,
            core: Arc::clone(&self.core),
            tag: PhantomData,
        }
    }
}

impl<S> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.at.handle())
    }
}

impl<S> Stream<S> {
    /// The handle of the stream `at`, which must be the stream that `S` names on the device of
    /// `core`.
    pub(crate) fn from_parts(at: StreamRef, core: Arc<DeviceCore>) -> Self {
        Self {
            at,
            core,
            tag: PhantomData,
        }
    }

    pub(crate) fn at(&self) -> StreamRef {
        self.at
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// Begins one call of the API on this stream, called `name`. The call enqueues all its work
    /// through the result.
    #[inline]
    #[track_caller]
    pub(crate) fn call(&self, name: &'static str) -> Call<'_> {
        Call::new(&self.core, self.at, type_name::<S>(), name)
    }

    /// Records an event at the present end of this stream, for the call `during`.
    #[inline]
    pub(crate) fn record(&self, during: &'static str) -> Result<EventLease> {
        let recorded = self.core.events().record_on(&self.at, false);
        recorded.or_else(|error| self.core.not_recorded(error, during))
    }
}

/// Moving ownership.
impl<S: StreamTag> Stream<S> {
    /// Gives up a bundle: records an event after all its uses (`cuEventRecord`) and hands it over.
    /// Stream-ordered.
    ///
    /// Every part must be owned by this stream. Counterexample: were a part of another stream
    /// accepted, the event recorded here would say nothing of its uses there, and the next owner
    /// would race with them.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H04](crate::hazards#h04) and [H06](crate::hazards#h06): after
    /// the call the program cannot name the bundle on this stream. Another stream can use it only
    /// through [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`Error::Driver`] if the event cannot be recorded. The bundle is then dropped in this
    /// stream's order; [`try_release`](Self::try_release) gives it back.
    #[inline]
    pub fn release<R: OwnedBy<S>>(&self, bundle: R) -> Result<Handoff<R::Idle>> {
        // Not by `try_release`, whose error holds the bundle: a large bundle would be moved more
        // often.
        let lease = self.record("Stream::release")?;
        // SAFETY: the event was recorded just now, on this stream, which owned the bundle.
        Ok(unsafe { Handoff::behind(bundle, lease) })
    }

    /// Like [`release`](Self::release), but gives the bundle back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the bundle, still owned by this stream.
    #[inline]
    pub fn try_release<R: OwnedBy<S>>(&self, bundle: R) -> Result<Handoff<R::Idle>, Refused<R>> {
        match self.record("Stream::release") {
            // SAFETY: the event was recorded just now, on this stream, which owned the bundle.
            Ok(lease) => Ok(unsafe { Handoff::behind(bundle, lease) }),
            Err(error) => Err(Refused { error, value: bundle }),
        }
    }

    /// Takes a bundle over: later work of this stream waits, on the GPU, for the event of the
    /// release (`cuStreamWaitEvent`). If this stream recorded the event, the wait is skipped.
    /// Stream-ordered; the host does not wait.
    ///
    /// A closure must name the type of a handoff that it is given, because rustc cannot tell which
    /// bundle it carries: `|handoff: Handoff<DeviceBuffer<f32>>| stream.acquire(handoff)`.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03), [H05](crate::hazards#h05) (the
    /// handoff is consumed), [H36](crate::hazards#h36).
    ///
    /// # Errors
    /// [`Error::Driver`] if the wait cannot be enqueued. The bundle is then freed behind its event;
    /// [`try_acquire`](Self::try_acquire) gives it back.
    #[inline]
    pub fn acquire<H: Released>(&self, handoff: H) -> Result<<H::Bundle as Bundle>::On<S>>
    where
        <H::Bundle as Bundle>::Device: SameAs<S::Device>,
    {
        // Not by `try_acquire`, as in `release`. The handoff is borrowed here, and moved only once.
        let fence = handoff.handoff().fence();
        fence.wait_on_borrowed(&self.at).during("Stream::acquire")?;
        let handoff = handoff.into_handoff();
        // SAFETY: this stream waits for the fence. Equal tags name one device.
        Ok(unsafe { handoff.acquired(self.at()) })
    }

    /// Like [`acquire`](Self::acquire), but gives the handoff back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the handoff, pending as before.
    #[inline]
    pub fn try_acquire<H: Released>(
        &self,
        handoff: H,
    ) -> Result<<H::Bundle as Bundle>::On<S>, Refused<Handoff<H::Bundle>>>
    where
        <H::Bundle as Bundle>::Device: SameAs<S::Device>,
    {
        let handoff = handoff.into_handoff();
        if let Err(error) = handoff.fence().wait_on(self.at()).during("Stream::acquire") {
            return Err(Refused {
                error,
                value: handoff,
            });
        }
        // SAFETY: this stream waits for the fence. Equal tags name one device.
        Ok(unsafe { handoff.acquired(self.at()) })
    }

    /// Takes over an idle bundle. Calls nothing: no work of an idle bundle is pending.
    ///
    /// # Errors
    /// No error at present. The signature is the same as for [`acquire`](Self::acquire).
    #[inline]
    #[track_caller]
    pub fn adopt<R: Bundle>(&self, idle: R) -> Result<R::On<S>>
    where
        R::Device: SameAs<S::Device>,
        S::Device: Live,
    {
        idle.note_host_access(ToHost::writes(CallSite::here("Stream::adopt")));
        // SAFETY: an idle bundle has no pending use, and `SameAs` says that the devices are one.
        Ok(unsafe { idle.attach(self.at()) })
    }
}

/// Waiting and marking.
impl<S: StreamTag> Stream<S> {
    /// Blocks the host until all work of this stream is done (`cuStreamSynchronize`). The call
    /// frees nothing, and no type changes: it proves nothing about a buffer, because another thread
    /// may enqueue more work on the stream at once. To touch a result,
    /// [`synchronize`](crate::Handoff::synchronize) its handoff, which waits for less.
    ///
    /// # Errors
    /// [`Error::Driver`], also if earlier work of this stream failed.
    pub fn synchronize(&self) -> Result<()>
    where
        S::Device: Live,
    {
        let wait = || self.core.wait_for_stream(self.at);
        self.core
            .observed()
            .host_waits(self.at.id(), wait)
            .during("Stream::synchronize")
    }

    /// Whether all work that this stream holds now is done (`cuStreamQuery`). Does not block, frees
    /// nothing, and changes no type. To ask about one result, use its handoff's
    /// [`is_done`](crate::Handoff::is_done), which asks about less.
    ///
    /// # Errors
    /// [`Error::Driver`], also if earlier work of this stream failed.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let zeros = compute.alloc_zeroed::<u32>(1024)?;
    /// while !compute.is_done()? {
    ///     std::hint::spin_loop(); // other work of this thread
    /// }
    /// # drop(zeros);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn is_done(&self) -> Result<bool>
    where
        S::Device: Live,
    {
        // SAFETY: CORE-1: the core keeps the stream live.
        let query = |at| unsafe { self.core.driver().query_stream(at) };
        self.at.host_waits(query).during("Stream::is_done")
    }

    /// Records an event that takes the time at this place in the stream's work (`cuEventRecord`).
    /// Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn record_timed_event(&self) -> Result<TimedEvent<S::Device>>
    where
        S::Device: Live,
    {
        let lease = self
            .core()
            .events()
            .record(self.at(), true)
            .during("Stream::record_timed_event")?;
        Ok(TimedEvent::new(lease))
    }
}

/// Memory.
impl<S: StreamTag> Stream<S> {
    /// Allocates `len` zeroed elements, in memory that the stream
    /// [kept](crate::Device::set_memory_caching), or else in new memory (`cuMemAllocFromPoolAsync`,
    /// `cuMemsetD8Async`). Stream-ordered.
    ///
    /// The output of a kernel that returns its element need not be zeroed first:
    /// [`alloc_uninit`](Self::alloc_uninit) saves the `cuMemsetD8Async`. For data of the host, call
    /// [`alloc_from_slice`](Self::alloc_from_slice).
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::Driver`].
    #[track_caller]
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::alloc_zeroed");
        let buffer = self.raw_alloc::<T>(&call, len)?;
        self.raw_fill(&call, buffer.address(), &[0], len * size_of::<T>())?;
        // SAFETY: the fill writes every byte in this stream's order, and all-zero bytes are a value
        // of `T`.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Allocates `len` elements without writing them, in memory that the stream
    /// [kept](crate::Device::set_memory_caching), or else in new memory
    /// (`cuMemAllocFromPoolAsync`). Stream-ordered. The type does not allow reads
    /// ([H39](crate::hazards#h39)). A kernel that returns its element makes the memory readable
    /// ([`KernelOutput`](crate::kernel::KernelOutput)); so do [`init_filled`](Self::init_filled),
    /// [`init_from`](Self::init_from), [`init_from_host`](Self::init_from_host) and
    /// [`init_from_slice`](Self::init_from_slice).
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::Driver`].
    #[track_caller]
    pub fn alloc_uninit<T: Element>(&self, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>, S>> {
        let call = self.call("Stream::alloc_uninit");
        self.raw_alloc(&call, len)
    }

    /// Writes `value` to every element of uninitialised memory, and so makes the buffer readable
    /// (`cuMemsetD8Async` and its wider and 2-D forms). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`]; the buffer is then freed.
    #[track_caller]
    pub fn init_filled<T: Element>(
        &self,
        buffer: DeviceBuffer<MaybeUninit<T>, S>,
        value: T,
    ) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::init_filled");
        self.raw_fill(&call, buffer.address(), bytemuck::bytes_of(&value), buffer.len())?;
        // SAFETY: every element is written in this stream's order.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies pinned memory to uninitialised device memory, and so makes the buffer readable
    /// (`cuMemcpyHtoDAsync`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`]; the buffer is then freed.
    #[track_caller]
    pub fn init_from_host<T: Element, P: ReadBy<S>>(
        &self,
        buffer: DeviceBuffer<MaybeUninit<T>, S>,
        source: &PinnedSlice<T, P>,
    ) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::init_from_host");
        let bytes = same_length::<T>(source.len(), buffer.len(), call.name())?;
        self.raw_copy_to_device(&call, buffer.address(), source.address(), bytes)?;
        // SAFETY: every element is written in this stream's order.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies device memory to uninitialised device memory, and so makes the buffer readable
    /// (`cuMemcpyDtoDAsync`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`]; the buffer is then freed.
    #[track_caller]
    pub fn init_from<T: Element, P: ReadBy<S>>(
        &self,
        buffer: DeviceBuffer<MaybeUninit<T>, S>,
        source: &DeviceSlice<T, P>,
    ) -> Result<DeviceBuffer<T, S>> {
        let call = self.call("Stream::init_from");
        let bytes = same_length::<T>(source.len(), buffer.len(), call.name())?;
        self.raw_copy(&call, buffer.address(), source.address(), bytes)?;
        // SAFETY: every element is written in this stream's order.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies pinned host memory to the device (`cuMemcpyHtoDAsync`). Stream-ordered; both sides
    /// belong to this stream until released, so the host cannot change the source under the copy
    /// ([H14](crate::hazards#h14)).
    ///
    /// Pageable memory (`Vec`, slices, the stack) is refused ([H15](crate::hazards#h15)): the
    /// driver stages copies of pageable memory, and nothing says when they are over. Use
    /// [`Device::pinned_from`](crate::Device::pinned_from), or
    /// [`copy_from_slice`](Self::copy_from_slice), which blocks.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`].
    #[inline]
    #[track_caller]
    #[rustfmt::skip] // The comment stands in rustc's note for a program that passes ordinary memory.
    pub fn copy_to_device<T: Element, P: ReadBy<S>, Q: WriteBy<S>>( // a `Vec` or slice: `copy_from_slice`; idle memory: `adopt` it
        &self,
        source: &PinnedSlice<T, P>,
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<()> {
        let call = self.call("Stream::copy_to_device");
        let bytes = same_length::<T>(source.len(), destination.len(), call.name())?;
        self.raw_copy_to_device(&call, destination.address(), source.address(), bytes)
    }

    /// Copies device memory to pinned host memory (`cuMemcpyDtoHAsync`). Stream-ordered; the host
    /// reaches the result only through the handoff's [`synchronize`](Handoff::synchronize)
    /// ([H13](crate::hazards#h13)).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`].
    #[inline]
    #[track_caller]
    #[rustfmt::skip] // As for `copy_to_device`.
    pub fn copy_to_host<T: Element, P: ReadBy<S>, Q: WriteBy<S>>( // a `Vec` or slice: `copy_to_slice`; idle memory: `adopt` it
        &self,
        source: &DeviceSlice<T, P>,
        destination: &mut PinnedSlice<T, Q>,
    ) -> Result<()> {
        let call = self.call("Stream::copy_to_host");
        let bytes = same_length::<T>(source.len(), destination.len(), call.name())?;
        self.raw_copy_to_host(&call, destination.address(), source.address(), bytes)
    }

    /// Copies device memory to uninitialised pinned memory, and so makes the pinned buffer readable
    /// (`cuMemcpyDtoHAsync`). Stream-ordered; the host reaches the result only through the
    /// handoff's [`synchronize`](Handoff::synchronize) ([H13](crate::hazards#h13)).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`]; the buffer then goes back to its pool.
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let squares = compute.alloc_from_slice(&[0, 1, 4, 9])?;
    /// let host = compute.adopt(gpu.pinned_uninit(4)?)?;
    /// let host = compute.init_host_from(host, &squares)?; // PinnedBuffer<i32, Compute>
    /// assert_eq!(*compute.release(host)?.synchronize()?, [0, 1, 4, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_host_from<T: Element, P: ReadBy<S>>(
        &self,
        buffer: PinnedBuffer<MaybeUninit<T>, S>,
        source: &DeviceSlice<T, P>,
    ) -> Result<PinnedBuffer<T, S>> {
        let call = self.call("Stream::init_host_from");
        let bytes = same_length::<T>(source.len(), buffer.len(), call.name())?;
        self.raw_copy_to_host(&call, buffer.address(), source.address(), bytes)?;
        // SAFETY: every element is written in this stream's order, which later uses of the buffer
        // follow; the host reaches it behind a wait.
        Ok(unsafe { buffer.assume_init() })
    }

    /// Copies within the device (`cuMemcpyDtoDAsync`). Stream-ordered.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::Driver`].
    #[inline]
    #[track_caller]
    pub fn copy<T: Element, P: ReadBy<S>, Q: WriteBy<S>>(
        &self,
        source: &DeviceSlice<T, P>,
        destination: &mut DeviceSlice<T, Q>,
    ) -> Result<()> {
        let call = self.call("Stream::copy");
        let bytes = same_length::<T>(source.len(), destination.len(), call.name())?;
        self.raw_copy(&call, destination.address(), source.address(), bytes)
    }

    /// Writes `value` to every element (`cuMemsetD8Async` and its wider and 2-D forms).
    /// Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Driver`]. Elements whose size is not 1, 2 or 4 bytes take several driver calls:
    /// after an error some of their bytes may be written.
    #[inline]
    #[track_caller]
    pub fn fill<T: Element, Q: WriteBy<S>>(
        &self,
        destination: &mut DeviceSlice<T, Q>,
        value: T,
    ) -> Result<()> {
        let call = self.call("Stream::fill");
        self.raw_fill(
            &call,
            destination.address(),
            bytemuck::bytes_of(&value),
            destination.len(),
        )
    }

    fn raw_alloc<T: Element>(&self, call: &Call<'_>, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>, S>> {
        let bytes = size_in_bytes::<T>(len).ok_or(Error::TooLarge {
            during: call.name(),
            len,
            element_bytes: size_of::<T>(),
        })?;
        let block = match bytes {
            0 => DeviceBlock::NONE,
            _ => call.alloc(bytes)?,
        };
        // SAFETY: BUFFER-1, BUFFER-4: the pool returned the block. BUFFER-2: its earlier uses are
        // ordered before the present end of the stream. BUFFER-3: the stream is `S`.
        Ok(unsafe { DeviceBuffer::from_block(self.core(), self.at(), block, len) })
    }

    fn raw_fill(&self, call: &Call<'_>, to: DeviceAddress, pattern: &[u8], count: usize) -> Result<()> {
        if pattern.is_empty() || count == 0 {
            return Ok(());
        }
        call.enqueue(Kind::Fill, "fill", pattern.len() * count, move |driver, at| {
            // SAFETY: as in `raw_copy_to_host`.
            unsafe { driver.fill(to, pattern, count, at) }
        })
    }

    fn raw_copy(&self, call: &Call<'_>, to: DeviceAddress, from: DeviceAddress, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        call.enqueue(Kind::Copy, "copy", bytes, move |driver, at| {
            // SAFETY: as in `raw_copy_to_host`; a shared and a unique borrow do not overlap.
            unsafe { driver.copy(to, from, bytes, at) }
        })
    }

    #[inline]
    fn raw_copy_to_host(
        &self,
        call: &Call<'_>,
        to: NonNull<c_void>,
        from: DeviceAddress,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        call.enqueue(Kind::CopyToHost, "copy to host", bytes, move |driver, at| {
            // SAFETY: both ranges belong to this stream's order (`ReadBy`, `WriteBy`), are live and
            // in bounds (SLICE-1, PINNED-SLICE-1), and their owners free them in stream order.
            unsafe { driver.copy_to_host(to, from, bytes, at) }
        })
    }

    #[inline]
    fn raw_copy_to_device(
        &self,
        call: &Call<'_>,
        to: DeviceAddress,
        from: NonNull<c_void>,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        call.enqueue(Kind::CopyToDevice, "copy to device", bytes, move |driver, at| {
            // SAFETY: as in `raw_copy_to_host`.
            unsafe { driver.copy_to_device(to, from, bytes, at) }
        })
    }
}

/// The length of a copy in bytes, if both sides have equal lengths.
#[inline]
pub(crate) fn same_length<T>(
    source_len: usize,
    destination_len: usize,
    during: &'static str,
) -> Result<usize> {
    if source_len != destination_len {
        return Err(Error::LengthMismatch {
            during,
            source_len,
            destination_len,
        });
    }
    // Cannot overflow: both were allocated.
    Ok(source_len * size_of::<T>())
}
