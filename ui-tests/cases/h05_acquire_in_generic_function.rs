// H05 (E0382): a function for any two streams gives both the same handoff.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, Bundle, SameAs, Stream, StreamTag};

fn both<A: StreamTag, B: StreamTag, R: Bundle>(
    (a, b): (&Stream<A>, &Stream<B>),
    handoff: Handoff<R>,
) -> Result<(R::On<A>, R::On<B>), Error>
where
    R::Device: SameAs<A::Device> + SameAs<B::Device>,
{
    Ok((a.acquire(handoff)?, b.acquire(handoff)?))
}

fn main() {}
