//! Loans between two devices, with each driver call failing in turn.
#![forbid(unsafe_code)]

use cuda_rt::simulator::Call;
use cuda_rt::{Device, Handoff, Live, Result};

use super::{Compute, Other};
use crate::pairs::faults::{Program, for_each_call_that_fails};

const LEN: usize = 96;

/// A loan each way, moved between streams, returned, dropped and forgotten; each side writes again
/// as soon as it may.
struct LoansBothWays;

impl Program for LoansBothWays {
    const WITHOUT_END: [usize; 4] = [0, 0, 1, 1];

    fn run<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> Result<()> {
        let (compute, other) = (here.stream::<Compute<D>>()?, here.stream::<Other<D>>()?);
        let owner = there.stream::<Compute<E>>()?;
        let mut theirs = owner.alloc_zeroed::<u32>(LEN)?;
        owner.fill(&mut theirs, 1)?;
        let mut lent = compute.acquire_peer(owner.release(theirs)?)?;
        let mut ours = compute.alloc_zeroed::<u32>(LEN)?;
        compute.copy(&lent, &mut ours)?;
        compute.fill(&mut lent[..LEN / 2], 2)?;
        let mut lent = other.acquire(compute.release(lent)?)?;
        other.fill(&mut lent[..LEN / 4], 3)?;
        let mut theirs = owner.acquire(other.release(lent)?.for_its_device())?;
        owner.fill(&mut theirs[..1], 4)?;

        // Written by the other device as it is dropped; the next buffer may get the same memory.
        let mut dropped = compute.acquire_peer(owner.release(owner.alloc_zeroed::<u32>(LEN)?)?)?;
        compute.fill(&mut dropped, 9)?;
        drop(dropped);
        let mut next = owner.alloc_zeroed::<u32>(LEN)?;
        owner.fill(&mut next, 5)?;

        let mut hosts = (owner.adopt(there.pinned(LEN)?)?, owner.adopt(there.pinned(LEN)?)?);
        owner.copy_to_host(&theirs, &mut hosts.0)?;
        owner.copy_to_host(&next, &mut hosts.1)?;
        drop((theirs, next));
        let hosts: Handoff<_> = owner.release(hosts)?;
        let mut host = compute.adopt(here.pinned(LEN)?)?;
        compute.copy_to_host(&ours, &mut host)?;
        assert_eq!(*compute.release(host)?.synchronize()?, [1; LEN]);
        let (theirs, next) = hosts.synchronize()?;
        assert_eq!(*next, [5; LEN]);
        let runs = [
            (0..1, 4),
            (1..LEN / 4, 3),
            (LEN / 4..LEN / 2, 2),
            (LEN / 2..LEN, 1),
        ];
        for (range, value) in runs {
            assert!(theirs[range].iter().all(|at| *at == value), "{theirs:?}");
        }
        Ok(())
    }
}

#[test]
fn each_call_that_fails_gives_an_error_and_no_wrong_bytes_and_leaks_no_more_than_it_must() {
    for_each_call_that_fails::<LoansBothWays>(|counted| {
        assert_eq!(counted.calls(Call::PeerAccess), 2);
    });
}
