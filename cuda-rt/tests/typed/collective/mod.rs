//! Collectives of simulated devices in adversarial orders, and of two GPUs with NCCL.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{
    CollectiveError, Communicator, Device, DeviceBuffer, Element, Error, Live, Reduction, Refused, Result,
    Stream,
};

use crate::pairs::for_each_pair;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 132;

type Ranks<A, B> = (Communicator<(A, B)>, Stream<Compute<A>>, Stream<Compute<B>>);

/// The two devices as ranks, with a stream on each. Prints a message and returns `None` where GPUs
/// cannot be ranks.
fn ranks<A: Live, B: Live>(first: &Device<A>, second: &Device<B>) -> Option<Ranks<A, B>> {
    match Communicator::new((first, second)) {
        Ok(ranks) => Some((ranks, first.stream().unwrap(), second.stream().unwrap())),
        Err(error) if first.is_simulated() => panic!("{error}"),
        Err(Error::Collective(CollectiveError::SameDevice { .. })) => {
            eprintln!("SKIPPED ON CUDA: one GPU is no two ranks");
            None
        }
        Err(error) if cfg!(feature = "nccl") => panic!("{error}"),
        Err(error) => {
            eprintln!("SKIPPED ON CUDA: {error}");
            None
        }
    }
}

fn filled<T: Element, D: Live>(
    stream: &Stream<Compute<D>>,
    len: usize,
    value: T,
) -> DeviceBuffer<T, Compute<D>> {
    let mut buffer = stream.alloc_zeroed(len).unwrap();
    stream.fill(&mut buffer, value).unwrap();
    buffer
}

fn contents<T: Element, D: Live>(
    stream: &Stream<Compute<D>>,
    buffer: &DeviceBuffer<T, Compute<D>>,
) -> Vec<T> {
    let mut host = stream
        .adopt(stream.device().pinned(buffer.len()).unwrap())
        .unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

#[test]
fn all_reduce_gives_every_rank_the_same() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        for (by, expected) in [
            (Reduction::Sum, 7.0),
            (Reduction::Product, 10.0),
            (Reduction::Min, 2.0),
            (Reduction::Max, 5.0),
        ] {
            let (a, b) = (filled(&here, LEN, 2.0_f32), filled(&there, LEN, 5.0_f32));
            let (a, b) = ranks.all_reduce(by, (here.rank(a), there.rank(b))).unwrap();
            assert_eq!(contents(&here, &a), [expected; LEN], "{by:?}");
            assert_eq!(contents(&there, &b), [expected; LEN], "{by:?}");
        }
        let (a, b) = (filled(&here, LEN, -7_i64), filled(&there, LEN, i64::MAX));
        let (a, b) = ranks
            .all_reduce(Reduction::Min, (here.rank(a), there.rank(b)))
            .unwrap();
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![-7; LEN], vec![-7; LEN])
        );
        let (a, b) = (filled(&here, 3, 200_u8), filled(&there, 3, 100_u8));
        let (a, b) = ranks
            .all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
            .unwrap();
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![44; 3], vec![44; 3])
        );
        assert!(first.races().is_empty());
        ranks.status().unwrap();
    });
}

/// A rank's memory is written before and after the collective, without a wait by the program.
#[test]
fn h38_a_collective_is_ordered_among_the_work_of_each_stream() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let (mut a, mut b) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
        let mut kept = here.alloc_zeroed::<u32>(LEN).unwrap();
        for round in 0..3 {
            (a, b) = ranks
                .all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
                .unwrap();
            here.copy(&a, &mut kept).unwrap();
            here.fill(&mut a, 10 * round).unwrap();
            there.fill(&mut b, round).unwrap();
        }
        assert_eq!(contents(&here, &kept), [11; LEN]);
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![20; LEN], vec![2; LEN])
        );
        assert!(first.races().is_empty());
    });
}

/// Elements whose type is not a number for NCCL.
#[test]
fn broadcast_copies_the_roots_data() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let (a, b) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
        let all = (filled(&here, 2 * LEN, 0_u32), filled(&there, 2 * LEN, 0_u32));
        let ((mut a, all_a), (b, all_b)) = ranks
            .all_gather((here.rank((a, all.0)), there.rank((b, all.1))))
            .unwrap();
        here.fill(&mut a, 77).unwrap();
        let expected = [[1; LEN], [2; LEN]].concat();
        assert_eq!(contents(&here, &all_a), expected);
        assert_eq!(contents(&there, &all_b), expected);

        // Rank 0 gets 1 + 1 for the first half, and rank 1 gets 2 + 2 for the second.
        let ((all_a, a), (all_b, b)) = ranks
            .reduce_scatter(Reduction::Sum, (here.rank((all_a, a)), there.rank((all_b, b))))
            .unwrap();
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![2; LEN], vec![4; LEN])
        );
        assert_eq!(
            (contents(&here, &all_a), contents(&there, &all_b)),
            (expected.clone(), expected)
        );
        assert!(first.races().is_empty());
    });
}

/// Parts of one buffer, on a stream that acquired them. One part is freed while the collective
/// runs.
#[test]
fn buffers_may_be_dropped_under_a_collective() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let mut whole = filled(&here, 2 * LEN, 1_u32);
        let tail = whole.split_off(LEN);
        let b = filled(&there, LEN, 2_u32);
        let (a, b) = ranks
            .all_reduce(Reduction::Sum, (here.rank(tail), there.rank(b)))
            .unwrap();
        drop((a, whole));
        drop(filled(&here, 2 * LEN, 100_u32));
        assert_eq!(contents(&there, &b), [3; LEN]);
        assert!(first.races().is_empty());
    });
}

#[test]
fn h38_parts_that_share_a_unit_of_nccl_are_refused() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let refusal = |a, b| {
            let refused = ranks.try_all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)));
            refused.err().map(|Refused { error, value }| {
                assert!(value.is_some(), "{error}");
                match error {
                    Error::Collective(CollectiveError::SharedUnit {
                        rank,
                        does,
                        start,
                        end,
                        ..
                    }) => (rank, does, start, end),
                    error => panic!("{error}"),
                }
            })
        };
        // The last part may end anywhere: nothing else has bytes behind the allocation's end.
        for (mid, head, tail) in [
            (513, Some((0, "sends", 0, 1)), Some((0, "sends", 1, 0))),
            (516, Some((0, "sends", 0, 4)), Some((0, "sends", 4, 0))),
            (512, None, None),
        ] {
            let mut all = filled(&here, 1025, 1_u8);
            let after = all.split_off(mid);
            let len = after.len();
            assert_eq!(refusal(all, filled(&there, mid, 2)), head);
            assert_eq!(refusal(after, filled(&there, len, 2)), tail);
        }
        let mut all = filled(&there, 1024, 1_u8);
        let after = all.split_off(8);
        assert_eq!(refusal(filled(&here, 8, 1), all), Some((1, "sends", 0, 8)));
        drop(after);
    });
}

#[test]
fn h38_lengths_are_compared_before_anything_is_enqueued() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let (a, b) = (filled(&here, 8, 1_u32), filled(&there, 9, 2_u32));
        let before = first.simulator().map(|simulator| simulator.counters());
        let Refused { error, value } = ranks
            .try_all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Communicator::all_reduce: rank 1 sends 9 elements, but rank 0's buffer requires 8"
        );
        let (a, b) = value.unwrap();
        let Refused { error, value } = ranks.try_broadcast(0, (here.rank(a), there.rank(b))).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Collective(CollectiveError::RankLength {
                    rank: 1,
                    len: 9,
                    expected: 8,
                    ..
                })
            ),
            "{error}"
        );
        let (a, b) = value.unwrap();
        assert_eq!(before, first.simulator().map(|simulator| simulator.counters()));
        let all = (filled(&here, 16, 0_u32), filled(&there, 17, 0_u32));
        let Refused { error, value } = ranks
            .try_all_gather((here.rank((a, all.0)), there.rank((b, all.1))))
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::Collective(CollectiveError::RankLength {
                    rank: 1,
                    does: "sends",
                    len: 9,
                    expected: 8,
                    ..
                })
            ),
            "{error}"
        );
        let ((a, all_a), (b, all_b)) = value.unwrap();
        let Refused { error, .. } = ranks
            .try_reduce_scatter(Reduction::Sum, (here.rank((all_a, a)), there.rank((all_b, b))))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Communicator::reduce_scatter: rank 1 sends 17 elements, but rank 0's buffer requires 16"
        );
        // The failure does not affect later work.
        let (a, b) = (filled(&here, 8, 1_u32), filled(&there, 8, 2_u32));
        let (a, b) = ranks
            .all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
            .unwrap();
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![3; 8], vec![3; 8])
        );
    });
}

#[test]
fn an_empty_reduction_makes_no_call() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        let (a, b) = (
            here.alloc_zeroed::<f32>(0).unwrap(),
            there.alloc_zeroed::<f32>(0).unwrap(),
        );
        let (a, b) = ranks
            .all_reduce(Reduction::Max, (here.rank(a), there.rank(b)))
            .unwrap();
        assert!(a.is_empty() && b.is_empty());
        if let Some(simulator) = first.simulator() {
            assert_eq!(simulator.counters().calls(Call::Collective), 0);
        }
    });
}

#[test]
#[should_panic(expected = "rank 2 of 2 is to broadcast")]
fn a_broadcast_from_an_invalid_root_is_refused() {
    Device::simulated(SimConfig::new(), |first| {
        first.simulated_peer(|second| {
            let (ranks, here, there) = ranks(&first, &second).unwrap();
            let (a, b) = (filled(&here, 1, 1), filled(&there, 1, 1));
            drop(ranks.broadcast(2, (here.rank(a), there.rank(b))));
        })
    })
    .unwrap()
    .unwrap();
}

/// Four ranks and several rounds; streams hand over between rounds.
#[test]
fn four_ranks_reduce_in_every_order() {
    for seed in 0..12 {
        for order in [Order::Random, Order::Lazy] {
            let config = SimConfig::new().seed(seed).order(order);
            Device::simulated(config, |a| {
                a.simulated_peer(|b| {
                    a.simulated_peer(|c| a.simulated_peer(|d| four(&a, &b, &c, &d).unwrap()))
                })
            })
            .unwrap()
            .unwrap()
            .unwrap()
            .unwrap();
        }
    }
}

fn four<A: Live, B: Live, C: Live, D: Live>(
    a: &Device<A>,
    b: &Device<B>,
    c: &Device<C>,
    d: &Device<D>,
) -> Result<()> {
    let ranks = Communicator::new((a, b, c, d))?;
    let streams = (
        a.stream::<Compute<A>>()?,
        b.stream::<Compute<B>>()?,
        c.stream::<Compute<C>>()?,
        d.stream::<Compute<D>>()?,
    );
    let mut x = filled(&streams.0, LEN, 1_u64);
    let (mut y, mut z, mut w) = (
        filled(&streams.1, LEN, 2_u64),
        filled(&streams.2, LEN, 3_u64),
        filled(&streams.3, LEN, 4_u64),
    );
    for _ in 0..3 {
        let given = (
            streams.0.rank(x),
            streams.1.rank(y),
            streams.2.rank(z),
            streams.3.rank(w),
        );
        (x, y, z, w) = ranks.all_reduce(Reduction::Sum, given)?;
    }
    let expected = vec![160; LEN];
    assert_eq!(contents(&streams.0, &x), expected);
    assert_eq!(contents(&streams.3, &w), expected);
    let other = a.stream::<Other<A>>()?;
    let mut x = other.acquire(streams.0.release(x)?)?;
    other.fill(&mut x, 5)?;
    let given = (
        other.rank(x),
        streams.1.rank(y),
        streams.2.rank(z),
        streams.3.rank(w),
    );
    let (x, y, ..) = ranks.broadcast(0, given)?;
    assert_eq!(contents(&streams.1, &y), [5; LEN]);
    drop(x);
    assert!(a.races().is_empty());
    Ok(())
}

/// Several threads enqueue on one communicator: all ranks run the collectives in one order.
#[test]
fn threads_share_a_communicator() {
    Device::simulated(SimConfig::new().seed(5), |first| {
        first.simulated_peer(|second| {
            let (ranks, here, there) = ranks(&first, &second).unwrap();
            let here = (here, first.stream::<Other<_>>().unwrap());
            let there = (there, second.stream::<Other<_>>().unwrap());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let (a, b) = (filled(&here.0, LEN, 1_u32), filled(&there.0, LEN, 2_u32));
                        let (a, b) = ranks
                            .all_reduce(Reduction::Sum, (here.0.rank(a), there.0.rank(b)))
                            .unwrap();
                        assert_eq!(
                            (contents(&here.0, &a), contents(&there.0, &b)),
                            (vec![3; LEN], vec![3; LEN])
                        );
                    }
                });
                scope.spawn(|| {
                    for _ in 0..20 {
                        let (a, b) = (
                            here.1.alloc_zeroed::<u32>(LEN).unwrap(),
                            there.1.alloc_zeroed::<u32>(LEN).unwrap(),
                        );
                        drop(ranks.broadcast(0, (here.1.rank(a), there.1.rank(b))).unwrap());
                    }
                });
            });
            assert!(first.races().is_empty());
        })
    })
    .unwrap()
    .unwrap();
}

#[test]
fn an_aborted_communicator_refuses_work_and_returns_its_arguments() {
    for_each_pair(|first, second| {
        let Some((ranks, here, there)) = ranks(first, second) else {
            return;
        };
        ranks.abort();
        ranks.abort();
        assert!(ranks.status().unwrap_err().to_string().contains("aborted"));
        let (a, b) = (filled(&here, LEN, 1_u32), filled(&there, LEN, 2_u32));
        let Refused { error, value } = ranks
            .try_all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
            .unwrap_err();
        assert_eq!(error.driver().unwrap().code(), ErrorCode::NCCL_INVALID_USAGE);
        let (a, b) = value.unwrap();
        assert_eq!(
            (contents(&here, &a), contents(&there, &b)),
            (vec![1; LEN], vec![2; LEN])
        );
        // A new communicator of the same devices works.
        let again = Communicator::new((first, second)).unwrap();
        let (a, _b) = again
            .all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))
            .unwrap();
        assert_eq!(contents(&here, &a), [3; LEN]);
    });
}

#[test]
fn each_call_of_a_collective_that_fails_returns_its_error() {
    Device::simulated(SimConfig::new(), |first| {
        first.simulated_peer(|second| {
            let simulator = first.simulator().unwrap();
            for (call, name) in [
                (Call::PeerAccess, "cuMemPoolSetAccess"),
                (Call::CommunicatorInit, "ncclCommInitAll"),
            ] {
                simulator.fail_next(call, ErrorCode::OUT_OF_MEMORY);
                let error = Communicator::new((&first, &second)).unwrap_err();
                assert!(error.to_string().starts_with(&format!("Communicator::new: {name} failed")), "{error}");
            }
            let (ranks, ..) = ranks(&first, &second).unwrap();
            simulator.fail_next(Call::CollectiveStatus, ErrorCode::NCCL_REMOTE_ERROR);
            let error = ranks.status().unwrap_err();
            assert_eq!(
                error.to_string().split(": injected").next().unwrap(),
                "Communicator::status: ncclCommGetAsyncError failed: ncclRemoteError (6): another rank failed, or is gone"
            );
            ranks.status().unwrap();
        })
    })
    .unwrap()
    .unwrap();
}
