//! Copies between two devices, with each driver call failing in turn.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Handoff, Live, Result};

use super::{Compute, Copies};
use crate::pairs::faults::{PASSING, Program, for_each_call_that_fails};

const LEN: usize = 96;

/// Copies both ways; each side writes its lent memory again as soon as it may.
struct CopiesBothWays;

impl Program for CopiesBothWays {
    const WITHOUT_END: [usize; 4] = [0, 0, 0, 1];

    fn run<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> Result<()> {
        let (copies, compute) = (here.stream::<Copies<D>>()?, here.stream::<Compute<D>>()?);
        let owner = there.stream::<Compute<E>>()?;
        let mut source = owner.alloc_zeroed::<u32>(LEN)?;
        owner.fill(&mut source, 1)?;
        let mut ours = copies.alloc_zeroed::<u32>(LEN)?;
        let source = copies.copy_from_peer(owner.release(source)?, .., &mut ours)?;
        let mut source = owner.acquire(source)?;
        owner.fill(&mut source, 2)?;

        let mut reply = copies.alloc_zeroed::<u32>(LEN)?;
        copies.fill(&mut reply, 3)?;
        let source = copies.copy_to_peer(&reply, owner.release(source)?, ..LEN)?;
        copies.fill(&mut reply, 4)?;
        // Freed on the other device, after the copy.
        drop(copies.copy_from_peer(owner.release(owner.alloc_zeroed::<u32>(LEN)?)?, .., &mut reply)?);

        let source = owner.acquire(source)?;
        let mut host = owner.adopt(there.pinned(LEN)?)?;
        owner.copy_to_host(&source, &mut host)?;
        drop(source);
        let theirs: Handoff<_> = owner.release(host)?;
        let ours = compute.acquire(copies.release(ours)?)?;
        let mut host = compute.adopt(here.pinned(LEN)?)?;
        compute.copy_to_host(&ours, &mut host)?;
        assert_eq!(*compute.release(host)?.synchronize()?, [1; LEN]);
        assert_eq!(*theirs.synchronize()?, [3; LEN]);
        Ok(())
    }
}

#[test]
fn each_call_that_fails_gives_an_error_and_no_wrong_bytes_and_leaks_no_more_than_it_must() {
    for_each_call_that_fails::<CopiesBothWays>(|counted| {
        assert!(counted.calls(Call::CopyPeer) == 3 && counted.calls(Call::PeerAccess) == 3);
    });
}

/// The end of a copy cannot be recorded, and the host waits for it instead.
#[test]
fn a_copy_whose_end_only_the_host_could_wait_for() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |here| {
        here.simulated_peer(|there| {
            let copies = here.stream::<Copies<_>>().unwrap();
            let owner = there.stream::<Compute<_>>().unwrap();
            let theirs = owner.release(owner.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = here.simulator().unwrap();
            simulator.fail_next(Call::RecordEvent, PASSING);
            let theirs = copies.copy_from_peer(theirs, .., &mut ours).unwrap();
            assert_eq!(simulator.counters().bytes_between_devices, 4 * LEN as u64);
            let mut theirs = owner.acquire(theirs).unwrap();
            owner.fill(&mut theirs, 1).unwrap();
            assert!(here.races().is_empty());
        })
    })
    .unwrap()
    .unwrap();
}
