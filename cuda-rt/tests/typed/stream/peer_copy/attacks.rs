//! Attacks on copies between devices: devices that are dropped, and ends that cannot be recorded.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Handoff, Query};

use crate::block_on::block_on;

use super::{Compute, Copies, LEN, Other, contents, filled};

/// The instances of a copy's two devices may be dropped before the copy has run.
#[test]
fn attack_drop_both_devices_while_a_copy_is_in_flight() {
    for order in [Order::Lazy, Order::Random] {
        Device::simulated(SimConfig::new().order(order), |keeper| {
            let simulator = keeper.simulator().unwrap().clone();
            keeper
                .simulated_peer(|here| {
                    keeper.simulated_peer(|there| {
                        let (copies, owner) = (
                            here.stream::<Copies<_>>().unwrap(),
                            there.stream::<Compute<_>>().unwrap(),
                        );
                        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
                        let source = filled(&owner, 3).unwrap();
                        let source = copies.copy_from_peer(source, .., &mut ours).unwrap();
                        // The copying device is dropped first; its recorded event is still waited
                        // for.
                        drop((ours, copies, here));
                        let source = owner.acquire(source).unwrap();
                        drop((owner, there));
                        drop(source);
                    })
                })
                .unwrap()
                .unwrap();
            let last = keeper.stream::<Other<_>>().unwrap();
            last.synchronize().unwrap();
            let counters = simulator.counters();
            assert_eq!(counters.streams_live, 2, "the keeper's own");
            assert!(keeper.races().is_empty());
        })
        .unwrap();
    }
}

/// The copy's event is queried through the device that copied, which may be dropped. Futures and
/// polling still see the end.
#[test]
fn attack_await_a_copy_whose_device_is_gone() {
    for way in 0..3 {
        for seed in 0..8 {
            let config = SimConfig::new().seed(seed).order(Order::Lazy);
            Device::simulated(config, |owner_gpu| {
                let owner = owner_gpu.stream::<Compute<_>>().unwrap();
                owner_gpu
                    .simulated_peer(|gone| {
                        let copies = gone.stream::<Copies<_>>().unwrap();
                        let mut target = filled(&owner, 0).unwrap();
                        let mut source = copies.alloc_zeroed::<u32>(LEN).unwrap();
                        for value in 0..50 {
                            copies.fill(&mut source, value).unwrap();
                            target = copies.copy_to_peer(&source, target, ..).unwrap();
                        }
                        drop((source, copies, gone));
                        let target = match way {
                            0 => target.synchronize().unwrap(),
                            1 => block_on(target).unwrap(),
                            _ => loop {
                                match target.query().unwrap() {
                                    Query::Done(target) => break target,
                                    Query::Pending(pending) => target = pending,
                                }
                            },
                        };
                        let target = Handoff::ready(target);
                        assert_eq!(contents(&owner_gpu, &owner, target), [49; LEN]);
                    })
                    .unwrap();
                assert!(owner_gpu.races().is_empty());
            })
            .unwrap();
        }
    }
}

#[test]
fn attack_devices_simulated_apart() {
    Device::simulated(SimConfig::new(), |one| {
        Device::simulated(SimConfig::new(), |other| {
            let (copies, owner) = (
                one.stream::<Copies<_>>().unwrap(),
                other.stream::<Compute<_>>().unwrap(),
            );
            let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
            assert!(one.peer_access(&other).is_err());
            let source = filled(&owner, 3).unwrap();
            let before = other.simulator().unwrap().counters();
            let refused = copies.try_copy_from_peer(source, .., &mut ours).unwrap_err();
            // A wait would be for another event that has the same number on the other host.
            assert_eq!(other.simulator().unwrap().counters(), before);
            assert!(
                refused
                    .error
                    .to_string()
                    .contains("no device of the same simulated host"),
                "{refused}"
            );
            assert_eq!(contents(&other, &owner, refused.value), [3; LEN]);
        })
    })
    .unwrap()
    .unwrap();
}

/// A code that is not sticky and belongs to no call in particular.
const PASSING: ErrorCode = ErrorCode::OUT_OF_MEMORY;

/// The end of a copy can neither be recorded nor waited for: its memory is never given out again.
#[test]
fn attack_a_copy_whose_end_is_lost() {
    for to_peer in [false, true] {
        let counters = Device::simulated(SimConfig::new().order(Order::Lazy), |keeper| {
            let simulator = keeper.simulator().unwrap().clone();
            keeper
                .simulated_peer(|here| {
                    keeper.simulated_peer(|there| {
                        let copies = here.stream::<Copies<_>>().unwrap();
                        let owner = there.stream::<Compute<_>>().unwrap();
                        let theirs = owner.release(owner.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
                        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
                        simulator.fail_next(Call::RecordEvent, PASSING);
                        simulator.fail_next(Call::SynchronizeStream, PASSING);
                        let refused = if to_peer {
                            copies.try_copy_to_peer(&ours, theirs, ..)
                        } else {
                            copies.try_copy_from_peer(theirs, .., &mut ours)
                        }
                        .unwrap_err();
                        let refused = owner.try_acquire(refused.value).unwrap_err();
                        let refused = refused.value.try_synchronize().unwrap_err();
                        let refused = refused.value.query().unwrap_err();
                        // Not even to another copy.
                        let refused = copies
                            .try_copy_from_peer(refused.value, .., &mut ours)
                            .unwrap_err();
                        drop(refused);
                    })
                })
                .unwrap()
                .unwrap();
            simulator.counters()
        })
        .unwrap();
        assert_eq!(counters.allocations_live, 1, "freed under the copy");
    }
}

/// A lend on the other device could not be joined. Its memory may still be written, and is not
/// copied.
#[test]
fn attack_copy_from_a_device_on_which_an_ordering_could_not_be_made() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |here| {
        here.simulated_peer(|there| {
            let copies = here.stream::<Copies<_>>().unwrap();
            let (owner, borrower) = (
                there.stream::<Compute<_>>().unwrap(),
                there.stream::<Copies<_>>().unwrap(),
            );
            let theirs = owner.release(owner.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            let mut lent = owner.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = here.simulator().unwrap();
            simulator.fail_nth(Call::RecordEvent, 2, PASSING);
            simulator.fail_next(Call::SynchronizeStream, PASSING);
            owner
                .lend(&borrower, &mut lent, |view| borrower.fill(view, 7))
                .unwrap_err();
            // What was lent cannot be released, and what was released before is not copied.
            owner.release(lent).unwrap_err();
            let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
            let refused = copies.try_copy_from_peer(theirs, .., &mut ours).unwrap_err();
            let refused = copies.try_copy_to_peer(&ours, refused.value, ..).unwrap_err();
            assert_eq!(simulator.counters().calls(Call::CopyPeer), 0);
            drop(refused);
            assert!(here.races().is_empty());
        })
    })
    .unwrap()
    .unwrap();
}
