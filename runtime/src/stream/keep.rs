//! [`Stream::keep`], and the uses of what a stream keeps.
//!
//! ```text
//!   DeviceBuffer<T, S> ──keep──▶ Kept<DeviceBuffer<T, Idle<AnyDevice>>>
//!                                  ├──open──────────▶ the same stream: a comparison
//!                                  └──open_ordered──▶ any stream of the device: an event, a wait
//! ```

use std::sync::Arc;

use crate::device::AnyDevice;
use crate::error::{During, Error, Refused, Result};
use crate::memory::{Bundle, Kept, OwnedBy};
use crate::stream::Stream;
use crate::stream::any::{AnyStream, Lasting};
use crate::stream::lend;
use crate::tag::{Live, NoStream, StreamTag};

/// The form in which a stream `S` keeps a bundle `A`: idle, on [`AnyDevice`]. For a
/// `DeviceBuffer<f32, S>` it is `DeviceBuffer<f32, Idle<AnyDevice>>`.
pub type KeptOf<A, S> = IdleOnAny<<A as OwnedBy<S>>::Idle>;

/// An idle bundle of some device, as a bundle of [`AnyDevice`].
pub type IdleOnAny<R> = <<R as Bundle>::On<NoStream<AnyDevice>> as OwnedBy<NoStream<AnyDevice>>>::Idle;

/// What a stream keeps, and what it opens again.
impl<S: StreamTag> Stream<S> {
    /// Keeps a bundle of this stream as a value that names its stream at run time. Calls nothing of
    /// the driver.
    ///
    /// # Hazards prevented
    /// [H23](crate::hazards#h23): the brand of a stream stays in its closure, and the bundle leaves
    /// without it.
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// let stream = gpu.create_stream("worker", Priority::Low)?;
    /// let kept = stream.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(64)?)))?;
    /// assert_eq!(kept.peek().len(), 64);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn keep<A: OwnedBy<S>>(&self, bundle: A) -> Kept<KeptOf<A, S>>
    where
        KeptOf<A, S>: Bundle<On<S> = A>,
        S: Lasting,
        S::Device: Live,
    {
        self.keep_held(bundle)
    }

    /// Keeps the bundle of type `R` that this stream owns.
    pub(crate) fn keep_held<R: Bundle<Device = AnyDevice>>(&self, bundle: R::On<S>) -> Kept<R>
    where
        S: Lasting,
        S::Device: Live,
    {
        let stream = self.to_any();
        // SAFETY: `S` is this stream, on the device that `stream` knows. The result goes into a
        // `Kept`, which neither uses nor frees it but in the order of this stream.
        let bundle = unsafe { R::idle_from::<S>(bundle) };
        // SAFETY: KEPT-1: `S` owned the bundle, so every use is in the order of this stream.
        unsafe { Kept::new(bundle, stream) }
    }

    /// Opens a bundle that this stream keeps. Costs a comparison, and calls nothing of the driver.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03): a bundle of another stream is
    /// refused. Counterexample: without the comparison, a stream would read what another stream is
    /// still writing.
    ///
    /// # Errors
    /// [`Refused`] with the bundle: [`Error::OtherStream`] if another stream keeps it. Both are
    /// named. [`open_ordered`](Self::open_ordered) takes it over instead.
    #[inline]
    pub fn open<R: Bundle<Device = AnyDevice>>(&self, kept: Kept<R>) -> Result<R::On<S>, Refused<Kept<R>>>
    where
        S::Device: Live,
    {
        if let Err(error) = self.keeps(kept.stream(), "Stream::open") {
            return Err(Refused { error, value: kept });
        }
        let (bundle, _stream) = kept.into_parts();
        // SAFETY: KEPT-1: every use is in the order of the stream that kept the bundle, which is
        // this stream. So it is on this stream's device too.
        Ok(unsafe { bundle.attach(self.at()) })
    }

    /// Opens a bundle that any stream of the device keeps. If it is another stream, this stream
    /// waits, on the GPU, for that stream's work so far (`cuEventRecord`, `cuStreamWaitEvent`).
    /// On the same stream it costs a comparison. Stream-ordered; the host does not wait.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03): the bundle's earlier uses come first.
    /// [H36](crate::hazards#h36): the device is compared.
    ///
    /// # Errors
    /// [`Refused`] with the bundle, kept as before: [`Error::OtherDevice`], and [`Error::Driver`].
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// # let create = |name| gpu.create_stream(name, Priority::Low);
    /// let (one, two) = (create("one")?, create("two")?);
    /// let kept = one.run(|s| s.alloc_from_slice(&[7_u32; 64]).map(|data| s.keep(data)))?;
    /// let data = two.run(|s| {
    ///     let buffer = s.open_ordered(kept)?; // waits for `one`, on the GPU
    ///     s.copy_to_vec(&buffer)
    /// })?;
    /// assert_eq!(data, [7; 64]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_ordered<R: Bundle<Device = AnyDevice>>(
        &self,
        kept: Kept<R>,
    ) -> Result<R::On<S>, Refused<Kept<R>>>
    where
        S::Device: Live,
    {
        const DURING: &str = "Stream::open_ordered";
        if kept.at().id() != self.at().id()
            && let Err(error) = self.wait_for(kept.stream(), DURING)
        {
            return Err(Refused { error, value: kept });
        }
        let (bundle, _stream) = kept.into_parts();
        // SAFETY: KEPT-1: every use is in the order of the stream that kept the bundle. That stream
        // is this stream, or it is on this stream's device, and this stream waits for it.
        Ok(unsafe { bundle.attach(self.at()) })
    }

    /// Views of a bundle that this stream keeps, for its work. Costs a comparison, and calls
    /// nothing of the driver.
    ///
    /// # Hazards prevented
    /// As [`open`](Self::open), and [H11](crate::hazards#h11): the bundle is borrowed while a view
    /// exists.
    ///
    /// # Errors
    /// [`Error::OtherStream`] if another stream keeps the bundle.
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// # let create = |name| gpu.create_stream(name, Priority::Low);
    /// let (one, two) = (create("one")?, create("two")?);
    /// let mut kept = one.run(|s| s.alloc_zeroed::<u32>(4).map(|data| s.keep(data)))?;
    /// let read = one.run(|s| {
    ///     s.fill(&mut s.view(&mut kept)?, 3)?; // a comparison, and no call of the driver
    ///     s.copy_to_vec(&s.by_ref(&kept)?)
    /// })?;
    /// assert_eq!(read, [3; 4]);
    /// // Another stream is refused, or waits on the GPU as it says.
    /// assert!(two.run(|s| matches!(s.view(&mut kept), Err(Error::OtherStream { .. }))));
    /// two.run(|s| s.view_ordered(&mut kept, |mut view| s.fill(&mut view, 4)))??;
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn view<'v, R: Bundle<Device = AnyDevice>>(&self, kept: &'v mut Kept<R>) -> Result<R::View<'v, S>>
    where
        S::Device: Live,
    {
        self.keeps(kept.stream(), "Stream::view")?;
        // SAFETY: KEPT-1: every use is in the order of this stream. The value is borrowed uniquely
        // for `'v`, so nothing else uses or frees the bundle.
        Ok(unsafe { kept.views() })
    }

    /// Views of a bundle that this stream keeps, for reading. Costs a comparison, and calls nothing
    /// of the driver.
    ///
    /// # Hazards prevented
    /// As [`open`](Self::open): while a view exists nothing writes the bundle.
    ///
    /// # Errors
    /// [`Error::OtherStream`] if another stream keeps the bundle.
    #[inline]
    pub fn by_ref<'v, R: Bundle<Device = AnyDevice>>(&self, kept: &'v Kept<R>) -> Result<R::Ref<'v, S>>
    where
        S::Device: Live,
    {
        self.keeps(kept.stream(), "Stream::by_ref")?;
        // SAFETY: KEPT-1: every write is in the order of this stream. The value is borrowed for
        // `'v`: a write needs the value itself, or `&mut`.
        Ok(unsafe { kept.refs() })
    }

    /// Like [`view`](Self::view), also for a bundle that another stream of the device keeps: that
    /// stream then lends it for `body`, as [`lend_all`](Self::lend_all) does (two events and two
    /// waits). The bundle stays with its stream.
    ///
    /// # Hazards prevented
    /// As [`lend`](Self::lend).
    ///
    /// # Errors
    /// [`Error::OtherDevice`], and as for [`lend`](Self::lend).
    pub fn view_ordered<R: Bundle<Device = AnyDevice>, O>(
        &self,
        kept: &mut Kept<R>,
        body: impl for<'v> FnOnce(R::View<'v, S>) -> O,
    ) -> Result<O>
    where
        S::Device: Live,
    {
        let owner = kept.stream().clone();
        self.on_loan(&owner, "Stream::view_ordered", || {
            // SAFETY: KEPT-1: every use is in the order of the owner, which this stream is, or
            // waits for now. At the end the owner waits for this stream. The value is borrowed
            // uniquely, and `body` takes the views for any lifetime, so none is left after it.
            body(unsafe { kept.views() })
        })
    }

    /// Like [`by_ref`](Self::by_ref), also for a bundle that another stream of the device keeps:
    /// that stream then lends it for reading, for `body`, as [`lend_ref`](Self::lend_ref) does (two
    /// events and two waits). Several streams may borrow one bundle at once.
    ///
    /// # Hazards prevented
    /// As [`lend_ref`](Self::lend_ref).
    ///
    /// # Errors
    /// [`Error::OtherDevice`], and as for [`lend_ref`](Self::lend_ref).
    ///
    /// ```
    /// # use cuda_rt::{AnyDevice, Error, Priority};
    /// # let gpu = AnyDevice::open_or_simulate(0)?;
    /// # let create = |name| gpu.create_stream(name, Priority::Low);
    /// # let (one, two) = (create("one")?, create("two")?);
    /// let weights = one.run(|s| Ok::<_, Error>(s.keep(s.alloc_from_slice(&[1.5_f32; 64])?)))?;
    /// let copy = two.run(|s| {
    ///     let mut copy = s.alloc_zeroed::<f32>(64)?;
    ///     s.by_ref_ordered(&weights, |weights| s.copy(&weights, &mut copy))??;
    ///     Ok::<_, Error>(s.keep(copy))
    /// })?;
    /// # drop(copy);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn by_ref_ordered<R: Bundle<Device = AnyDevice>, O>(
        &self,
        kept: &Kept<R>,
        body: impl for<'v> FnOnce(R::Ref<'v, S>) -> O,
    ) -> Result<O>
    where
        S::Device: Live,
    {
        self.on_loan(kept.stream(), "Stream::by_ref_ordered", || {
            // SAFETY: as in `view_ordered`, for reading: a write needs the value itself, or `&mut`.
            body(unsafe { kept.refs() })
        })
    }

    /// Whether `owner` is this stream.
    #[inline]
    pub(crate) fn keeps(&self, owner: &AnyStream, during: &'static str) -> Result<()> {
        if owner.at().id() == self.at().id() {
            return Ok(());
        }
        Err(self.other_stream(owner, during))
    }

    /// The error of a use, by the call `during`, of what another stream keeps.
    #[cold]
    fn other_stream(&self, owner: &AnyStream, during: &'static str) -> Error {
        Error::OtherStream {
            during,
            owner: owner.to_string().into(),
            asked: self.described(),
        }
    }

    /// An error if `owner` is on another device.
    fn is_of_device(&self, owner: &AnyStream, during: &'static str) -> Result<()> {
        if Arc::ptr_eq(owner.core(), self.core()) {
            return Ok(());
        }
        Err(owner.other_device(self.core(), during))
    }

    /// Makes this stream wait for the present end of `owner`, a stream of the same device.
    fn wait_for(&self, owner: &AnyStream, during: &'static str) -> Result<()> {
        self.is_of_device(owner, during)?;
        self.core().check().during(during)?;
        let lease = self.core().events().record(owner.at(), false).during(during)?;
        lease.wait_on(self.at()).during(during)
    }

    /// Runs `body` between the waits of a loan by `owner` to this stream.
    fn on_loan<O>(&self, owner: &AnyStream, during: &'static str, body: impl FnOnce() -> O) -> Result<O> {
        self.is_of_device(owner, during)?;
        lend::during_a_loan(self.core(), owner.at(), self.at(), during, body)
    }
}
