use crate::block::{Dimensions, Lane, Thread};
use crate::index::{Index1, Index2, Index3};

mod sealed {
    /// `Sized`: without it, the type `dyn ThreadToken` would implement
    /// [`ThreadToken`](super::ThreadToken).
    pub trait Token: Sized {}
}

/// Proof that the caller is one thread of a launch: an index, a [`Lane`] or a [`Thread`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one thread of a launch",
    label = "not a thread: the result of an atomic operation differs by thread, and must not decide about barriers",
    note = "pass the index, or the argument of a phase's closure: `block.threads(|thread| counts.fetch_add(thread, at, 1))`"
)]
pub trait ThreadToken: sealed::Token {}

macro_rules! tokens {
    ($($token:ty),*) => { $(
        impl sealed::Token for $token {}
        impl ThreadToken for $token {}
    )* };
}
tokens!(Index1<'_>, Index2<'_>, Index3<'_>);

impl<D: Dimensions> sealed::Token for Lane<'_, D> {}
impl<D: Dimensions> ThreadToken for Lane<'_, D> {}
impl<D: Dimensions> sealed::Token for Thread<'_, D> {}
impl<D: Dimensions> ThreadToken for Thread<'_, D> {}
