//! [`Handoff`]: a bundle between two owners. This file holds the host's waits;
//! [`order`](crate::order) shows where streams and tasks wait.

mod def;

use std::fmt;

pub use def::Handoff;

use crate::error::{During, Refused, Result};
use crate::memory::{Bundle, ToHost};
use crate::order::fence::Fence;
use crate::order::unless::Leaked;
use crate::tag::Live;
use cuda_rt_driver::CallSite;

impl<R: Bundle> fmt::Debug for Handoff<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bundle is left out: a user's `Debug` must not see a pending bundle.
        f.debug_struct("Handoff")
            .field("fence", self.fence())
            .finish_non_exhaustive()
    }
}

/// The answer of [`Handoff::query`].
///
/// ```
/// # cuda_rt::streams! { pub Download; }
/// use cuda_rt::{Query, Stream};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let download: Stream<Download> = gpu.stream()?;
/// # let host = download.adopt(gpu.pinned_from(&[3_u32; 4])?)?;
/// let pending = download.release(host)?;
/// match pending.query()? {
///     Query::Done(host) => assert_eq!(host[0], 3),
///     Query::Pending(later) => assert_eq!(later.synchronize()?[0], 3),
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a handoff that is still pending is inside"]
pub enum Query<R: Bundle> {
    /// All work that uses the bundle is over: the bundle, idle.
    Done(R),
    /// Some work is not over: the handoff, unchanged.
    Pending(Handoff<R>),
}

pub(crate) mod sealed {
    use super::{Bundle, Handoff};

    /// A trait that only a handoff implements. Its message tells a program that passes another type
    /// what to do. With a plain `Handoff<R>` as the parameter, rustc would only say that types
    /// mismatch.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a handoff",
        label = "no event says when its last use is over: no stream can wait for it",
        note = "H05: a handoff comes from the stream that owns the memory, and is used up: `reader.acquire(owner.release(buffer)?)?`",
        note = "what is idle has no use to wait for: `stream.adopt(buffer)?`",
        note = "rustc may also report the size of `[()]` where the result is used: those errors end when this one is mended",
        note = "H10: what is shared is read through `stream.lease(&shared)?`, and written again after `shared.reclaim()`, \
                which waits for every reader"
    )]
    pub trait Released: Sized {
        /// The bundle that the handoff carries.
        type Bundle: Bundle;

        /// The handoff itself.
        fn handoff(&self) -> &Handoff<Self::Bundle>;

        /// The handoff itself.
        fn into_handoff(self) -> Handoff<Self::Bundle>;
    }

    impl<R: Bundle> Released for Handoff<R> {
        type Bundle = R;

        #[inline(always)]
        fn handoff(&self) -> &Self {
            self
        }

        #[inline(always)]
        fn into_handoff(self) -> Self {
            self
        }
    }
}

impl<R: Bundle> Handoff<R> {
    /// A handoff of an idle bundle. There is nothing to wait for, so acquiring it costs nothing.
    #[track_caller]
    pub fn ready(idle: R) -> Self
    where
        R::Device: Live,
    {
        idle.note_host_access(ToHost::writes(CallSite::here("Handoff::ready")));
        // SAFETY: HANDOFF-1: the bundle is idle, so every use is over.
        unsafe { Self::pending(idle, Fence::DONE) }
    }

    /// Blocks the host until all work that uses the bundle is over (`cuEventSynchronize`), and
    /// returns it, idle.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13), [H14](crate::hazards#h14), [H16](crate::hazards#h16),
    /// [H18](crate::hazards#h18): the elements of a pending pinned buffer are unreachable until the
    /// handoff is seen over.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver). A failed wait is not a finished wait: the bundle is
    /// then leaked, never returned to the host. [`try_synchronize`](Self::try_synchronize) returns
    /// the handoff instead.
    #[track_caller]
    pub fn synchronize(self) -> Result<R>
    where
        R::Device: Live,
    {
        self.synchronized(CallSite::here("Handoff::synchronize"))
    }

    /// Like [`synchronize`](Self::synchronize), but gives the handoff back on an error.
    ///
    /// # Errors
    /// [`Refused`] with the handoff, pending as before.
    #[track_caller]
    pub fn try_synchronize(self) -> Result<R, Refused<Self>>
    where
        R::Device: Live,
    {
        match self.fence().synchronize().during("Handoff::synchronize") {
            // HANDOFF-1: every use is over.
            Ok(()) => Ok(self.settled(CallSite::here("Handoff::synchronize"))),
            Err(error) => Err(Refused { error, value: self }),
        }
    }

    /// Returns the bundle if all work that uses it is over, or else the handoff, unchanged
    /// (`cuEventQuery`). Does not block.
    ///
    /// # Errors
    /// [`Refused`] with the handoff, pending as before.
    #[track_caller]
    pub fn query(self) -> Result<Query<R>, Refused<Self>>
    where
        R::Device: Live,
    {
        match self.fence().query().during("Handoff::query") {
            Ok(true) => Ok(Query::Done(self.settled(CallSite::here("Handoff::query")))),
            Ok(false) => Ok(Query::Pending(self)),
            Err(error) => Err(Refused { error, value: self }),
        }
    }
}

impl<R: Bundle> Handoff<R> {
    /// Whether all work that uses the bundle is over (`cuEventQuery`). Does not block, and keeps
    /// the handoff: a program can ask many handoffs, in any order, and take the finished ones with
    /// [`synchronize`](Self::synchronize), which then returns at once.
    ///
    /// `true` is final. `false` may be old when the call returns.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13): the answer does not open the bundle. Only `synchronize`,
    /// [`query`](Self::query) or a stream's `acquire` does.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver). A failed query says nothing about the work.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut pending = Vec::new();
    /// for value in 0..4 {
    ///     let tile = compute.init_filled(compute.alloc_uninit::<u32>(1024)?, value)?;
    ///     pending.push(compute.release(tile)?);
    /// }
    /// while let Some(last) = pending.last() {
    ///     if last.is_done()? {
    ///         let tile = pending.pop().expect("it was just seen").synchronize()?;
    ///         assert_eq!(tile.len(), 1024);
    ///     }
    ///     // Other work of this thread.
    /// }
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn is_done(&self) -> Result<bool>
    where
        R::Device: Live,
    {
        self.fence().query().during("Handoff::is_done")
    }

    /// Waits, and takes the bundle out for the host. `try_synchronize` would move a large bundle
    /// more often, because its error holds the handoff.
    fn synchronized(mut self, passed: CallSite) -> Result<R> {
        self.fence().synchronize().during(passed.during)?;
        self.pending_ref().note_host_access(ToHost::writes(passed));
        // SAFETY: HANDOFF-1: every use is over. The handoff is forgotten.
        let bundle = unsafe { self.read_idle() };
        std::mem::forget(self);
        Ok(bundle)
    }

    /// Takes the bundle out for the host. Every use must be over.
    #[inline]
    pub(crate) fn settled(self, passed: CallSite) -> R {
        self.pending_ref().note_host_access(ToHost::writes(passed));
        let (bundle, fence) = self.into_parts();
        fence.end();
        bundle.take_back()
    }
}

macro_rules! split {
    ($(($($part:ident $value:ident),*);)*) => { $(
        impl<$($part: Bundle),*> Handoff<($($part,)*)>
        where
            ($($part,)*): Bundle,
        {
            /// One handoff for each part. They share the fence, and each can be acquired by a
            /// different stream.
            ///
            /// ```
            /// # cuda_rt::streams! { pub Upload; pub Compute; pub Download; }
            /// # let gpu = cuda_rt::Device::open_or_simulate()?;
            /// # let (upload, compute) = (gpu.stream::<Upload>()?, gpu.stream::<Compute>()?);
            /// # let download = gpu.stream::<Download>()?;
            /// let pair = (upload.alloc_zeroed::<f32>(4)?, upload.alloc_from_slice(&[7_u32])?);
            /// let (left, right) = upload.release(pair)?.split(); // one event, two handoffs
            /// let left = compute.acquire(left)?;
            /// let right = download.acquire(right)?;
            /// assert_eq!((left.len(), download.copy_to_vec(&right)?), (4, vec![7]));
            /// # Ok::<(), cuda_rt::Error>(())
            /// ```
            pub fn split(self) -> ($(Handoff<$part>,)*) {
                let (parts, mut fence) = self.into_parts();
                let ($($value,)*) = parts.take_back();
                $(let $value = Leaked::new($value);)*
                $(let $value = ($value, fence.share());)*
                ($(
                    // SAFETY: HANDOFF-1 held for the whole, so it holds for each part with the same
                    // fence.
                    unsafe { Handoff::pending($value.0.take_back(), $value.1) },
                )*)
            }
        }
    )* };
}

split! {
    (A a, B b);
    (A a, B b, C c);
    (A a, B b, C c, E e);
    (A a, B b, C c, E e, F f);
    (A a, B b, C c, E e, F f, G g);
    (A a, B b, C c, E e, F f, G g, H h);
    (A a, B b, C c, E e, F f, G g, H h, I i);
    (A a, B b, C c, E e, F f, G g, H h, I i, J j);
    (A a, B b, C c, E e, F f, G g, H h, I i, J j, K k);
    (A a, B b, C c, E e, F f, G g, H h, I i, J j, K k, L l);
    (A a, B b, C c, E e, F f, G g, H h, I i, J j, K k, L l, M m);
}

impl<R: Bundle, const N: usize> Handoff<[R; N]> {
    /// One handoff for each element; they share the event.
    pub fn split(self) -> [Handoff<R>; N] {
        let (parts, mut fence) = self.into_parts();
        let parts = parts.take_back().map(Leaked::new);
        parts.map(|part| {
            let fence = fence.share();
            // SAFETY: as for a tuple: HANDOFF-1 held of the whole.
            unsafe { Handoff::pending(part.take_back(), fence) }
        })
    }
}

impl<R: Bundle> Handoff<Vec<R>> {
    /// One handoff for each element; they share the event.
    pub fn split(self) -> Vec<Handoff<R>> {
        let len = self.pending_ref().len();
        let mut handoffs = Vec::with_capacity(len);
        let (parts, mut fence) = self.into_parts();
        let mut left = Leaked::new(parts.take_back().into_iter());
        while left.len() > 0 {
            let fence = fence.share();
            // SAFETY: as for a tuple: HANDOFF-1 held of the whole.
            handoffs.extend(left.next().map(|part| unsafe { Handoff::pending(part, fence) }));
        }
        drop(left.take_back());
        handoffs
    }
}
