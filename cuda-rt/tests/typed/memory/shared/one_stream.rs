//! Bundles that are shared, and read mostly by the stream that wrote them: the driver calls that
//! sharing costs, and the order that it keeps.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Idle, Lease, Live, Shared, Stream, StreamTag};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Home;
    Other;
}

const ROUNDS: u64 = 10;

/// The driver calls that `body` makes, without the calls that every program makes once.
fn calls<D: Live>(gpu: &Device<D>, body: impl FnOnce()) -> Vec<(Call, u64)> {
    let counters = || gpu.simulator().unwrap().counters();
    let before = counters();
    body();
    let after = counters();
    Call::ALL
        .iter()
        .map(|call| (*call, after.calls(*call) - before.calls(*call)))
        .filter(|(_, made)| *made > 0)
        .collect()
}

type Value<D> = Shared<DeviceBuffer<u32, Idle<D>>>;

/// One operation of a library that finds its streams at run time: a result from two values.
fn add<D: Live>(stream: &Stream<Home<D>>, left: &Value<D>, right: &Value<D>) -> DeviceBuffer<u32, Home<D>> {
    let (left, right) = (stream.lease(left).unwrap(), stream.lease(right).unwrap());
    let mut out = stream.alloc_zeroed::<u32>(LEN).unwrap();
    stream.copy(&left.view(), &mut out).unwrap();
    stream.copy(&right.view()[..1], &mut out[..1]).unwrap();
    out
}

/// Sharing on one stream costs no call with `share_lazily`, and one record with `share`. When each
/// lease recorded its end, and the memory was freed behind two waits on another stream, an
/// operation cost five calls more.
#[test]
fn a_value_that_stays_on_one_stream_costs_what_a_buffer_costs() {
    Device::simulated(SimConfig::new(), |gpu| {
        let home = gpu.stream::<Home<_>>().unwrap();
        // Makes the events that are reused below: a value is dropped when the next one is shared.
        drop([(); 2].map(|()| home.share(filled(&home, 0)).unwrap()));
        let plain = calls(&gpu, || {
            let mut value = home.alloc_zeroed::<u32>(LEN).unwrap();
            for _ in 0..ROUNDS {
                let mut out = home.alloc_zeroed::<u32>(LEN).unwrap();
                home.copy(&value, &mut out).unwrap();
                home.copy(&value[..1], &mut out[..1]).unwrap();
                value = out;
            }
        });
        let lazily = calls(&gpu, || {
            let mut value = home.share_lazily(home.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            for _ in 0..ROUNDS {
                value = home.share_lazily(add(&home, &value, &value)).unwrap();
            }
        });
        assert_eq!(lazily, plain);
        let eagerly = calls(&gpu, || {
            let mut value = home.share(home.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            for _ in 0..ROUNDS {
                value = home.share(add(&home, &value, &value)).unwrap();
            }
        });
        let records = (Call::RecordEvent, ROUNDS + 1);
        let mut expected = plain;
        expected.push(records);
        expected.sort_by_key(|(call, _)| Call::ALL.iter().position(|other| other == call));
        assert_eq!(eagerly, expected);
    })
    .unwrap();
}

/// Parts of one block, a nested lease and pinned memory are shared on one stream: no wait, and one
/// record for each block whose last use needs an event.
#[test]
fn parts_and_pinned_memory_on_one_stream_cost_what_they_cost_unshared() {
    Device::simulated(SimConfig::new(), |gpu| {
        let home = gpu.stream::<Home<_>>().unwrap();
        let bundle = || {
            let mut first = filled(&home, 1);
            let second = first.split_off(LEN / 2);
            let pinned = home.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            (first, second, pinned)
        };
        // Makes the events and the pinned block that are reused below.
        drop(bundle());
        home.synchronize().unwrap();
        let plain = calls(&gpu, || drop(bundle()));
        home.synchronize().unwrap();
        let shared = calls(&gpu, || {
            let inner = home.share_lazily(bundle()).unwrap();
            let outer = home.share_lazily(home.lease(&inner).unwrap()).unwrap();
            let lease = home.lease(&outer).unwrap();
            drop((inner, outer));
            drop(lease);
        });
        assert_eq!(shared, plain);
    })
    .unwrap();
}

fn share<D: Live>(home: &Stream<Home<D>>, value: u32, lazily: bool) -> Value<D> {
    let data = filled(home, value);
    if lazily {
        home.share_lazily(data).unwrap()
    } else {
        home.share(data).unwrap()
    }
}

/// A copy that `stream` makes through a lease, and the lease.
fn copied<D: Live, S: StreamTag<Device = D>>(
    stream: &Stream<S>,
    shared: &Value<D>,
) -> (DeviceBuffer<u32, S>, Lease<DeviceBuffer<u32, Idle<D>>, S>) {
    let lease = stream.lease(shared).unwrap();
    let copy = stream
        .init_from(stream.alloc_uninit(LEN).unwrap(), &lease.view())
        .unwrap();
    (copy, lease)
}

/// The writer's stream reads without an event of its own. Whoever writes next waits for that read.
#[test]
fn h10_a_read_on_the_writers_own_stream_is_waited_for() {
    for lazily in [false, true] {
        for_each_device(|gpu| {
            let (home, other) = (
                gpu.stream::<Home<_>>().unwrap(),
                gpu.stream::<Other<_>>().unwrap(),
            );
            let shared = share(&home, 3, lazily);
            let (copy, lease) = copied(&home, &shared);
            drop(lease);
            let mut data = other.acquire(shared.reclaim().unwrap()).unwrap();
            other.fill(&mut data, 9).unwrap();
            assert_eq!(read(gpu, &home, &copy), [3; LEN]);
            assert_eq!(read(gpu, &other, &data), [9; LEN]);
        });
    }
}

/// As above, but the memory is freed. Both streams have read, and the next owner of the memory is
/// on either of them.
#[test]
fn a_bundle_that_two_streams_read_is_freed_behind_both() {
    for lazily in [false, true] {
        for seed in 0..24 {
            Device::simulated(SimConfig::new().seed(seed).order(Order::Lazy), |gpu| {
                let (home, other) = (
                    gpu.stream::<Home<_>>().unwrap(),
                    gpu.stream::<Other<_>>().unwrap(),
                );
                let shared = share(&home, 3, lazily);
                let (there, lease) = copied(&other, &shared);
                drop(lease);
                let (here, lease) = copied(&home, &shared);
                drop((lease, shared));
                let _others = [(); 4].map(|()| (filled(&home, 8), filled(&other, 9)));
                assert_eq!(read(&gpu, &home, &here), [3; LEN]);
                assert_eq!(read(&gpu, &other, &there), [3; LEN]);
            })
            .unwrap();
        }
    }
}

/// A lease that began elsewhere ends on the writer's stream.
#[test]
fn a_lease_that_moves_to_the_writers_stream_is_waited_for() {
    for_each_device(|gpu| {
        let (home, other) = (
            gpu.stream::<Home<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let shared = home.share_lazily(filled(&home, 3)).unwrap();
        let (copy, lease) = copied(&other, &shared);
        let lease = home.acquire(other.release(lease).unwrap()).unwrap();
        drop((lease, shared));
        let _others = [(); 4].map(|()| filled(&home, 8));
        assert_eq!(read(gpu, &other, &copy), [3; LEN]);
    });
}
