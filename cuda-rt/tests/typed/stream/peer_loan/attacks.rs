//! Attacks on memory on loan between devices: it is dropped, forgotten or returned while work uses
//! it, and its devices end.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use device_kernels::roots;

use super::{Compute, GRID, LEN, Other, compute_and_owner, filled, for_each_linked_pair};

/// The memory is dropped in each state, while a slow kernel of the other device still writes it.
/// Its own device allocates the same size at once. If it got the same block too early, the kernel
/// would write into the new owner's elements.
#[test]
fn attack_drop_what_a_kernel_of_another_device_writes() {
    for_each_linked_pair(|here, there| {
        let (compute, other) = (
            here.stream::<Compute<_>>().unwrap(),
            here.stream::<Other<_>>().unwrap(),
        );
        let owner = there.stream::<Compute<_>>().unwrap();
        let input = compute.alloc_from_slice(&[9.0; LEN]).unwrap();
        for way in 0..8 {
            let mut lent = compute.acquire_peer(filled(&owner, 0.0).unwrap()).unwrap();
            roots(&compute, GRID(LEN), &input, &mut lent, 2000).unwrap();
            match way {
                0 => drop(lent),
                1 => drop(compute.release(lent).unwrap()),
                2 => drop(compute.release(lent).unwrap().for_its_device()),
                3 => drop(
                    owner
                        .acquire(compute.release(lent).unwrap().for_its_device())
                        .unwrap(),
                ),
                4 => drop(other.acquire(compute.release(lent).unwrap()).unwrap()),
                5 => drop(compute.share(lent).unwrap()),
                6 => drop(compute.share_lazily(lent).unwrap()),
                _ => drop(compute.release(lent).unwrap().synchronize().unwrap()),
            }
            let next = filled(&owner, way as f32).unwrap();
            compute.synchronize().unwrap();
            let next = owner.acquire(next).unwrap();
            assert_eq!(owner.copy_to_vec(&next).unwrap(), [way as f32; LEN], "way {way}");
        }
        assert!(here.races().is_empty());
    });
}

/// A panic drops the loan in the middle.
#[test]
fn attack_panic_while_memory_is_on_loan() {
    for_each_linked_pair(|here, there| {
        let (compute, owner) = compute_and_owner(here, there);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut lent = compute.acquire_peer(filled(&owner, 0.0).unwrap()).unwrap();
            compute.fill(&mut lent, 1.0).unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let next = owner.acquire(filled(&owner, 2.0).unwrap()).unwrap();
        compute.synchronize().unwrap();
        assert_eq!(owner.copy_to_vec(&next).unwrap(), [2.0; LEN]);
        assert!(here.races().is_empty());
    });
}

/// Both devices end in either order while a loan is in use. Nothing is left but the keeper's own.
#[test]
fn attack_drop_both_devices_under_a_loan() {
    for order in [Order::Lazy, Order::Random] {
        for lender_first in [false, true] {
            Device::simulated(SimConfig::new().order(order), |keeper| {
                let simulator = keeper.simulator().unwrap().clone();
                keeper
                    .simulated_peer(|here| {
                        keeper.simulated_peer(|there| {
                            let (compute, owner) = compute_and_owner(&here, &there);
                            let theirs = filled(&owner, 3.0).unwrap();
                            let mut lent = compute.acquire_peer(theirs).unwrap();
                            compute.fill(&mut lent, 4.0).unwrap();
                            if lender_first {
                                drop((owner, there));
                                drop(compute.release(lent).unwrap());
                                drop((compute, here));
                            } else {
                                let back = compute.release(lent).unwrap().for_its_device();
                                drop((compute, here));
                                drop(back);
                                drop((owner, there));
                            }
                        })
                    })
                    .unwrap()
                    .unwrap();
                let last = keeper.stream::<Other<_>>().unwrap();
                last.synchronize().unwrap();
                let left = simulator.counters();
                assert_eq!((left.streams_live, left.allocations_live), (2, 0));
                assert!(keeper.races().is_empty());
            })
            .unwrap();
        }
    }
}

/// The end of the borrower's work cannot be recorded. The memory is leaked, not freed under it.
#[test]
fn attack_free_what_has_no_known_end() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |here| {
        here.simulated_peer(|there| {
            let (compute, owner) = compute_and_owner(&here, &there);
            let mut lent = compute.acquire_peer(filled(&owner, 0.0).unwrap()).unwrap();
            compute.fill(&mut lent, 1.0).unwrap();
            let simulator = here.simulator().unwrap();
            simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
            drop(lent);
            owner.synchronize().unwrap();
            compute.synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 1);
            // The wait of its own device fails.
            let mut lent = compute.acquire_peer(filled(&owner, 0.0).unwrap()).unwrap();
            compute.fill(&mut lent, 1.0).unwrap();
            simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
            drop(lent);
            owner.synchronize().unwrap();
            compute.synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 2);
            assert!(here.races().is_empty());
        })
    })
    .unwrap()
    .unwrap();
}

/// A loan that is forgotten leaks its memory, and nothing else.
#[test]
fn attack_forget_a_loan() {
    for_each_linked_pair(|here, there| {
        let (compute, owner) = compute_and_owner(here, there);
        let mut lent = compute.acquire_peer(filled(&owner, 0.0).unwrap()).unwrap();
        compute.fill(&mut lent, 1.0).unwrap();
        std::mem::forget(lent);
        let lent = compute.acquire_peer(filled(&owner, 2.0).unwrap()).unwrap();
        std::mem::forget(compute.release(lent).unwrap().for_its_device());
        let next = owner.acquire(filled(&owner, 3.0).unwrap()).unwrap();
        compute.synchronize().unwrap();
        assert_eq!(owner.copy_to_vec(&next).unwrap(), [3.0; LEN]);
    });
}
