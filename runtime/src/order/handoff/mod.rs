//! [`Handoff`]: a bundle between two owners. Here the host waits for it; [`order`](crate::order)
//! shows where streams and tasks do.

mod def;

use std::fmt;

pub use def::Handoff;

use crate::error::{During, Refused, Result};
use crate::memory::{Bundle, ToHost};
use crate::order::fence::Fence;
use crate::tag::Live;
use cuda_rt_driver::CallSite;

impl<R: Bundle> fmt::Debug for Handoff<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the bundle: a user's `Debug` must not see what is pending.
        f.debug_struct("Handoff")
            .field("fence", self.fence())
            .finish_non_exhaustive()
    }
}

/// What [`Handoff::query`] found.
#[derive(Debug)]
#[must_use = "a handoff that is still pending is inside"]
pub enum Query<R: Bundle> {
    /// All work is over: here is the bundle.
    Done(R),
    /// Not yet.
    Pending(Handoff<R>),
}

pub(crate) mod sealed {
    use super::{Bundle, Handoff};

    /// A handoff, and nothing else. A trait, so that what is no handoff is refused in words that
    /// say what to do: a plain `Handoff<R>` as a parameter is refused as a mismatch of types.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a handoff",
        label = "no event says when its last use is over: no stream can wait for it",
        note = "H05: a handoff comes from the stream that owns the memory, and is used up: `reader.acquire(owner.release(buffer)?)?`",
        note = "what is idle has no use to wait for: `stream.adopt(buffer)?`",
        note = "H10: what is shared is read through `stream.lease(&shared)?`, and written again after `shared.reclaim()`, \
                which waits for every reader"
    )]
    pub trait Released: Sized {
        /// What it carries.
        type Bundle: Bundle;

        /// Itself.
        fn into_handoff(self) -> Handoff<Self::Bundle>;
    }

    impl<R: Bundle> Released for Handoff<R> {
        type Bundle = R;

        #[inline]
        fn into_handoff(self) -> Self {
            self
        }
    }
}

impl<R: Bundle> Handoff<R> {
    /// A handoff of what is idle: nothing to wait for, so it can be acquired anywhere at no cost.
    #[track_caller]
    pub fn ready(idle: R) -> Self
    where
        R::Device: Live,
    {
        idle.note_host_access(ToHost(CallSite::here("Handoff::ready")));
        // SAFETY: HANDOFF-1: idle, so every use is over.
        unsafe { Self::pending(idle, Fence::DONE) }
    }

    /// Blocks the host until all work that uses the bundle is over (`cuEventSynchronize`), and
    /// returns it, idle.
    ///
    /// # Hazards prevented
    /// H13, H14, H16, H18: there is no other way from a pending pinned buffer to its elements.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver). A failed wait is not a finished wait: the bundle is
    /// then leaked, never returned to the host. [`try_synchronize`](Self::try_synchronize) keeps
    /// it.
    #[track_caller]
    pub fn synchronize(self) -> Result<R>
    where
        R::Device: Live,
    {
        Ok(self.try_synchronize()?)
    }

    /// As [`synchronize`](Self::synchronize), giving the handoff back when it fails.
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

    /// The bundle if all work that uses it is over, or the handoff as it was (`cuEventQuery`). Does
    /// not block.
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
    /// The bundle, which the host has from now on: every use is over.
    #[inline]
    pub(crate) fn settled(self, passed: CallSite) -> R {
        let (bundle, _fence) = self.into_parts();
        bundle.note_host_access(ToHost(passed));
        bundle
    }
}

macro_rules! split {
    ($(($($part:ident $value:ident),*);)*) => { $(
        impl<$($part: Bundle),*> Handoff<($($part,)*)>
        where
            ($($part,)*): Bundle,
        {
            /// One handoff for each part; they share the event, and each can go its own way.
            pub fn split(self) -> ($(Handoff<$part>,)*) {
                let (($($value,)*), mut fence) = self.into_parts();
                ($(
                    // SAFETY: HANDOFF-1 held of the whole, and holds of each part with the same
                    // fence.
                    unsafe { Handoff::pending($value, fence.share()) },
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
        // SAFETY: as for a tuple: HANDOFF-1 held of the whole.
        parts.map(|part| unsafe { Handoff::pending(part, fence.share()) })
    }
}

impl<R: Bundle> Handoff<Vec<R>> {
    /// One handoff for each element; they share the event.
    pub fn split(self) -> Vec<Handoff<R>> {
        let (parts, mut fence) = self.into_parts();
        parts
            .into_iter()
            // SAFETY: as for a tuple: HANDOFF-1 held of the whole.
            .map(|part| unsafe { Handoff::pending(part, fence.share()) })
            .collect()
    }
}
