//! Fan-in and fan-out: handoffs of several streams are joined and split.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Bundle, Device, DeviceBuffer, Handoff, Stream, StreamTag};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Left;
    Right;
    Compute, priority = High;
}

/// A bundle of handoffs from two streams is read after both.
#[test]
fn h10_a_join_waits_for_every_stream() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for round in 0..4 {
            let a = left.release(filled(&left, round + 1)).unwrap();
            let b = right.release(filled(&right, round + 2)).unwrap();
            let c = compute.release(filled(&compute, round + 3)).unwrap();
            let (a, (b, c)) = match round {
                0 => compute
                    .acquire(Handoff::join((a, Handoff::join((b, c)))))
                    .unwrap(),
                1 => compute.acquire_all((a, (b, c))).unwrap(),
                2 => {
                    let [a, b, c] = compute.acquire_all([a, b, c]).unwrap();
                    (a, (b, c))
                }
                _ => {
                    let all = compute.acquire_all(vec![a, b, c]).unwrap();
                    let [a, b, c] = all.try_into().unwrap();
                    (a, (b, c))
                }
            };
            for (buffer, value) in [(a, 1), (b, 2), (c, 3)] {
                assert_eq!(read(gpu, &compute, &buffer), [round + value; LEN]);
            }
        }
    });
}

#[test]
fn a_join_reaches_the_host_behind_every_stream() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let mut a = left.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let mut b = right.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let (from_a, from_b) = (filled(&left, 4), filled(&right, 5));
        left.copy_to_host(&from_a, &mut a).unwrap();
        right.copy_to_host(&from_b, &mut b).unwrap();
        let both = Handoff::join((left.release(a).unwrap(), right.release(b).unwrap()));
        let (a, b) = both.synchronize().unwrap();
        assert_eq!((&*a, &*b), (&[4; LEN][..], &[5; LEN][..]));
    });
}

/// Split and joined again and again, a handoff waits for each event once, and nothing grows.
#[test]
fn joining_split_handoffs_waits_once() {
    Device::simulated(SimConfig::default(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let (left, compute) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
        );
        let parts: Vec<_> = (0..100).map(|value| filled(&left, value)).collect();
        let mut all = left.release(parts).unwrap();
        for _ in 0..100 {
            all = Handoff::join(all.split());
        }
        let waits = simulator.counters().calls(Call::WaitEvent);
        let parts = compute.acquire(all).unwrap();
        assert_eq!(simulator.counters().calls(Call::WaitEvent), waits + 1);
        assert_eq!(read(&gpu, &compute, &parts[99]), [99; LEN]);
        // There is nothing to wait for on the stream that everything came from, nor for an idle
        // bundle.
        let waits = simulator.counters().calls(Call::WaitEvent);
        let parts = compute.acquire_all([compute.release(parts).unwrap()]).unwrap();
        let idle = gpu.pinned::<u32>(1).unwrap();
        let [idle] = compute.acquire_all([Handoff::ready(idle)]).unwrap();
        assert_eq!(simulator.counters().calls(Call::WaitEvent), waits);
        drop((parts, idle));
        let empty: Vec<Handoff<DeviceBuffer<u32, _>>> = Vec::new();
        assert!(
            compute
                .acquire_all::<Vec<Handoff<_>>>(swap(&left, empty))
                .unwrap()
                .is_empty()
        );
    })
    .unwrap();
}

/// Gives an empty list the type of a device, for inference.
fn swap<S: StreamTag, R: Bundle<Device = S::Device>>(
    _: &Stream<S>,
    handoffs: Vec<Handoff<R>>,
) -> Vec<Handoff<R>> {
    handoffs
}

/// A wait that fails half-way returns everything, still pending. Dropping it frees the memory after
/// every event.
#[test]
fn a_join_refused_is_a_join_still() {
    for seed in 0..24 {
        for nth in 1..3 {
            let config = SimConfig::new().seed(seed).order(Order::Lazy);
            let simulator = Device::simulated(config, |gpu| {
                let simulator = gpu.simulator().unwrap();
                let (left, right) = (
                    gpu.stream::<Left<_>>().unwrap(),
                    gpu.stream::<Right<_>>().unwrap(),
                );
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let a = left.release(filled(&left, 1)).unwrap();
                let b = right.release(filled(&right, 2)).unwrap();
                simulator.fail_nth(Call::WaitEvent, nth, ErrorCode::OUT_OF_MEMORY);
                let refused = compute.try_acquire(Handoff::join((a, b))).unwrap_err();
                if seed % 2 == 0 {
                    let (a, b) = compute.acquire(refused.value).unwrap();
                    assert_eq!(read(&gpu, &compute, &a), [1; LEN]);
                    assert_eq!(read(&gpu, &compute, &b), [2; LEN]);
                }
                simulator.clone()
            })
            .unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    }
}

/// A pending join is dropped: each part is freed after its own stream's work.
#[test]
fn a_join_may_be_dropped() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let mut hosts = (
            left.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap(),
            right.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap(),
        );
        let (a, b) = (filled(&left, 1), filled(&right, 2));
        left.copy_to_host(&a, &mut hosts.0).unwrap();
        right.copy_to_host(&b, &mut hosts.1).unwrap();
        drop(Handoff::join((
            left.release(a).unwrap(),
            right.release(b).unwrap(),
        )));
        let others = [(); 6].map(|()| filled(&right, 9));
        assert_eq!(*left.release(hosts.0).unwrap().synchronize().unwrap(), [1; LEN]);
        assert_eq!(*right.release(hosts.1).unwrap().synchronize().unwrap(), [2; LEN]);
        drop(others);
    });
}

/// A diamond: one upload fans out to two streams, and their results are joined.
#[test]
fn a_diamond_of_streams_reads_one_upload() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let shared = compute.share(filled(&compute, 6)).unwrap();
        let copy_on_left = {
            let lease = left.lease(&shared).unwrap();
            left.init_from(left.alloc_uninit(LEN).unwrap(), &lease.view())
                .unwrap()
        };
        let copy_on_right = {
            let lease = right.lease(&shared).unwrap();
            right
                .init_from(right.alloc_uninit(LEN).unwrap(), &lease.view())
                .unwrap()
        };
        let copies = (
            left.release(copy_on_left).unwrap(),
            right.release(copy_on_right).unwrap(),
            shared.reclaim().unwrap(),
        );
        let (a, b, mut source) = compute.acquire_all(copies).unwrap();
        compute.fill(&mut source, 1).unwrap();
        assert_eq!(read(gpu, &compute, &a), [6; LEN]);
        assert_eq!(read(gpu, &compute, &b), [6; LEN]);
    });
}

/// As many elements of no size as a `usize` counts: a vector of anything with a size is refused
/// this length by a panic.
fn many<H>() -> Vec<[H; 0]> {
    let all: Box<[[H; 0]]> = Box::new([const { [] }; usize::MAX]);
    all.into_vec()
}

fn many_like<R: Bundle>(_: &Handoff<R>) -> Vec<[Handoff<R>; 0]> {
    many()
}

/// If a join unwinds half-way, what it took apart is not taken for idle.
#[test]
fn h10_a_join_that_panics_gives_no_pending_memory_back() {
    for way in 0..4 {
        let config = SimConfig::new().seed(3).order(Order::Lazy).check(Check::Record);
        Device::simulated(config, |gpu| {
            let (left, right) = (
                gpu.stream::<Left<_>>().unwrap(),
                gpu.stream::<Right<_>>().unwrap(),
            );
            let from = filled(&left, 7);
            let mut host = left.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            left.copy_to_host(&from, &mut host).unwrap();
            let pending = left.release(host).unwrap();
            let other = Handoff::ready(gpu.pinned::<u32>(1).unwrap());
            let many = many_like(&other);
            let joined = catch_unwind(AssertUnwindSafe(|| match way {
                0 => drop(Handoff::join((pending, many))),
                1 => drop(Handoff::join([(pending, Vec::new()), (other, many)])),
                2 => drop(Handoff::join(vec![(pending, Vec::new()), (other, many)])),
                _ => drop(right.acquire_all((pending, many))),
            }));
            assert!(joined.is_err(), "way {way}: there is no such vector");
            // Idle pinned memory would be this block.
            let mine = gpu.pinned_from(&[1_u32; LEN]).unwrap();
            left.synchronize().unwrap();
            assert_eq!(mine[..], [1; LEN], "way {way}");
            assert_eq!(gpu.races(), [], "way {way}");
        })
        .unwrap();
    }
}
