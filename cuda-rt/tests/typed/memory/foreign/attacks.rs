//! Attacks on foreign memory: it is released while a copy of another device uses it.

use std::time::Duration;

use cuda_rt::Device;
use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};

use super::{Compute, Download, LEN, Theirs};

/// A copy by another device is a use too, even if that device was dropped since.
#[test]
fn attack_give_back_under_a_copy_of_another_device() {
    for seed in 0..16 {
        for (to_peer, gone) in [(false, false), (true, false), (false, true), (true, true)] {
            let config = SimConfig::new()
                .seed(seed)
                .order(Order::Lazy)
                .check(Check::Record);
            Device::simulated(config, |here| {
                let (theirs, lent) = Theirs::new(&here);
                let owner = here.stream::<Compute<_>>().unwrap();
                let lent = owner.release(lent).unwrap();
                here.simulated_peer(|there| {
                    let copies = there.stream::<Download<_>>().unwrap();
                    let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
                    let lent = if to_peer {
                        copies.copy_to_peer(&ours, lent, ..).unwrap()
                    } else {
                        copies.copy_from_peer(lent, .., &mut ours).unwrap()
                    };
                    if gone {
                        drop((ours, copies, there));
                    }
                    drop(lent);
                })
                .unwrap();
                theirs.end();
                assert!(here.races().is_empty(), "{:?}", here.races());
            })
            .unwrap();
        }
    }
}

/// If the end of the copy cannot be recorded, the memory is leaked.
#[test]
fn attack_release_memory_that_a_lost_copy_of_another_device_uses() {
    let config = SimConfig::new().order(Order::Lazy).check(Check::Record);
    Device::simulated(config, |here| {
        let (theirs, mut lent) = Theirs::new(&here);
        let half = lent.split_off(LEN / 2);
        let owner = here.stream::<Compute<_>>().unwrap();
        here.simulated_peer(|there| {
            let copies = there.stream::<Download<_>>().unwrap();
            let mut ours = copies.alloc_zeroed::<u32>(LEN / 2).unwrap();
            let half = owner.release(half).unwrap();
            let simulator = there.simulator().unwrap();
            simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
            simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
            let refused = copies.try_copy_from_peer(half, .., &mut ours).unwrap_err();
            // A wait for the memory, a join with finished work, and an empty copy do not reveal the
            // copy's end.
            let lost = copies
                .try_copy_from_peer(refused.value, 0..0, &mut ours[..0])
                .unwrap();
            let done = owner.release(owner.alloc_zeroed::<u32>(1).unwrap()).unwrap();
            let both = cuda_rt::Handoff::join((done, lost));
            let (_, lost) = both.query().unwrap_err().value.split();
            let lost = owner.try_acquire(lost).unwrap_err().value;
            let mut slot = cuda_rt::Slot::from(lost);
            slot.host(|_| unreachable!("it is lost")).unwrap_err();
            slot.on(&owner, |_| unreachable!("it is lost")).unwrap_err();
            drop(slot);
        })
        .unwrap();
        drop(lent);
        owner.synchronize().unwrap();
        assert_eq!(
            theirs.given_back.recv_timeout(Duration::from_millis(100)),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout),
            "neither run nor dropped"
        );
        assert!(here.races().is_empty());
    })
    .unwrap();
}
