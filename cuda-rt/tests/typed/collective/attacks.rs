//! Attacks on collectives: invalid ranks, a call that fails half-way, and drops while a collective
//! runs.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Communicator, Device, Reduction, Refused};

use super::{Compute, LEN, Other, contents, filled, ranks};

#[test]
fn attack_one_device_as_two_ranks() {
    Device::simulated(SimConfig::new(), |first| {
        let error = Communicator::new((&first, &first)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Communicator::new: ranks 0 and 1 are one device: a communicator has each device once"
        );
        let simulator = first.simulator().unwrap();
        assert_eq!(simulator.counters().calls(Call::CommunicatorInit), 0);
        // By itself the device is a valid rank.
        let here = first.stream::<Compute<_>>().unwrap();
        let ranks = Communicator::new((&first,)).unwrap();
        let (a,) = ranks
            .all_reduce(Reduction::Sum, (here.rank(filled(&here, LEN, 3_u32)),))
            .unwrap();
        assert_eq!(contents(&here, &a), [3; LEN]);
    })
    .unwrap();
}

#[test]
fn attack_ranks_simulated_apart() {
    Device::simulated(SimConfig::new(), |one| {
        Device::simulated(SimConfig::new(), |other| {
            let error = Communicator::new((&one, &other)).unwrap_err();
            assert!(
                error.to_string().contains("no device of the same simulated host"),
                "{error}"
            );
        })
    })
    .unwrap()
    .unwrap();
}

/// Memory that a failed collective may still use is leaked, and nothing else is.
#[test]
fn attack_a_collective_that_fails_half_way() {
    for sticky in [false, true] {
        let code = if sticky {
            ErrorCode::LAUNCH_FAILED
        } else {
            ErrorCode::NCCL_SYSTEM_ERROR
        };
        let counters = Device::simulated(SimConfig::new().order(Order::Lazy), |keeper| {
            let simulator = keeper.simulator().unwrap().clone();
            keeper
                .simulated_peer(|first| {
                    keeper.simulated_peer(|second| {
                        let (ranks, here, there) = ranks(&first, &second).unwrap();
                        let mut a = filled(&here, 2 * LEN, 1_u32);
                        let part = a.split_off(LEN);
                        let b = filled(&there, LEN, 2_u32);
                        simulator.fail_next(Call::Collective, code);
                        let Refused { error, value } = ranks
                            .try_all_reduce(Reduction::Sum, (here.rank(part), there.rank(b)))
                            .unwrap_err();
                        assert!(value.is_none());
                        assert_eq!(error.driver().unwrap().code(), code);
                        assert!(
                            error
                                .to_string()
                                .starts_with("Communicator::all_reduce: the communicator is aborted, make a new one: ncclGroupEnd failed: ")
                        );
                        assert_eq!(simulator.pending_faults(), 0);
                        if sticky {
                            return;
                        }
                        // The error stays the same for ever, and the arguments come back.
                        let (c, d) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
                        let Refused { error, value } = ranks
                            .try_all_reduce(Reduction::Sum, (here.rank(c), there.rank(d)))
                            .unwrap_err();
                        assert_eq!(error.driver().unwrap().code(), code);
                        assert_eq!(contents(&there, &value.unwrap().1), [2; LEN]);
                        assert_eq!(ranks.status().unwrap_err().driver().unwrap().code(), code);
                    })
                })
                .unwrap()
                .unwrap();
            simulator.counters()
        })
        .unwrap();
        if !sticky {
            assert_eq!(
                counters.allocations_live, 2,
                "the block of the part, and the other rank's"
            );
            assert_eq!(counters.streams_live, 1, "no device was leaked");
        }
    }
}

/// A lend on one rank's device could not be joined: nothing is enqueued on any rank.
#[test]
fn attack_a_rank_on_which_an_ordering_could_not_be_made() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |first| {
        first.simulated_peer(|second| {
            let (ranks, here, there) = ranks(&first, &second).unwrap();
            let (a, mut b) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
            let other = second.stream::<Other<_>>().unwrap();
            let simulator = first.simulator().unwrap();
            simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
            simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
            there
                .lend(&other, &mut b, |view| other.fill(view, 7))
                .unwrap_err();
            let Refused { value, .. } = ranks
                .try_all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
                .unwrap_err();
            assert_eq!(simulator.counters().calls(Call::Collective), 0);
            let (a, _b) = value.unwrap();
            assert_eq!(contents(&here, &a), [1; LEN]);
        })
    })
    .unwrap()
    .unwrap();
}

/// The communicator and the devices are dropped while a collective is in flight.
#[test]
fn attack_drop_everything_under_a_collective() {
    for order in [Order::Lazy, Order::Random] {
        let counters = Device::simulated(SimConfig::new().order(order), |keeper| {
            let simulator = keeper.simulator().unwrap().clone();
            keeper
                .simulated_peer(|first| {
                    keeper.simulated_peer(|second| {
                        let (ranks, here, there) = ranks(&first, &second).unwrap();
                        let (a, b) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
                        let (a, b) = ranks
                            .all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
                            .unwrap();
                        drop(ranks);
                        drop((a, here, first));
                        assert_eq!(contents(&there, &b), [3; LEN]);
                        std::mem::forget(b);
                    })
                })
                .unwrap()
                .unwrap();
            assert!(keeper.races().is_empty());
            simulator.counters()
        })
        .unwrap();
        assert_eq!(counters.allocations_live, 1, "what was leaked");
    }
}
