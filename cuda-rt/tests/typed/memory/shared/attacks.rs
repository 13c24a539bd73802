//! Attacks on shared bundles: leases ended by several threads, leaked, and ended by a record that
//! fails.
#![forbid(unsafe_code)]

use std::sync::Barrier;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Stream, StreamTag};

cuda_rt::streams! {
    Reader;
    Writer;
}

const LEN: usize = 64;

fn lazy(seed: u64) -> SimConfig {
    SimConfig::default().seed(seed).order(Order::Lazy)
}

fn downloaded<S: StreamTag>(
    stream: &Stream<S>,
    host: cuda_rt::PinnedBuffer<u32, S>,
) -> cuda_rt::PinnedBuffer<u32, cuda_rt::Idle<S::Device>>
where
    S::Device: cuda_rt::Live,
{
    stream.release(host).unwrap().synchronize().unwrap()
}

/// Threads end leases of one stream at the same time. If the event of the earlier read were kept
/// and the event of the last read dropped, the writer would overwrite memory that the last read
/// still uses.
#[test]
fn attack_threads_end_leases_of_one_stream_and_an_earlier_event_wins() {
    const THREADS: usize = 8;
    for round in 0..2_000 {
        Device::simulated(lazy(round), |gpu| {
            let (reader, writer) = (
                gpu.stream::<Reader<_>>().unwrap(),
                gpu.stream::<Writer<_>>().unwrap(),
            );
            let mut data = writer.alloc_zeroed::<u32>(LEN).unwrap();
            writer.fill(&mut data, 3).unwrap();
            let shared = writer.share(data).unwrap();
            let start = Barrier::new(THREADS);
            let read = || {
                let mut host = reader.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
                start.wait();
                for _ in 0..4 {
                    let lease = reader.lease(&shared).unwrap();
                    reader.copy_to_host(&lease.view(), &mut host).unwrap();
                }
                host
            };
            let hosts = std::thread::scope(|scope| {
                let threads = [(); THREADS].map(|()| scope.spawn(read));
                threads.map(|thread| thread.join().unwrap())
            });
            let mut data = writer.acquire(shared.reclaim().unwrap()).unwrap();
            writer.fill(&mut data, 9).unwrap();
            writer.synchronize().unwrap();
            for host in hosts {
                assert_eq!(*downloaded(&reader, host), [3; LEN], "round {round}");
            }
        })
        .unwrap();
    }
}

/// The end of a read could not be recorded, so it is never known. The bundle must not come back as
/// if the end were known.
#[test]
fn attack_a_lease_whose_end_cannot_be_recorded_is_taken_for_over() {
    Device::simulated(lazy(0), |gpu| {
        let (reader, writer) = (
            gpu.stream::<Reader<_>>().unwrap(),
            gpu.stream::<Writer<_>>().unwrap(),
        );
        let shared = writer.share(writer.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
        let lease = reader.lease(&shared).unwrap();
        let simulator = gpu.simulator().unwrap();
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        drop(lease);
        let handoff = shared.reclaim().unwrap();
        let handoff = handoff.try_synchronize().unwrap_err().value;
        assert!(writer.acquire(handoff).is_err());
    })
    .unwrap();
}

/// Two holders call `reclaim` at the same time: at most one gets the bundle, and it is not lost.
#[test]
fn attack_two_threads_reclaim_at_once() {
    for round in 0..500 {
        Device::simulated(lazy(round), |gpu| {
            let reader = gpu.stream::<Reader<_>>().unwrap();
            let shared = reader.share(reader.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            let other = shared.clone();
            let (one, two) = std::thread::scope(|scope| {
                let (one, two) = (
                    scope.spawn(move || shared.reclaim()),
                    scope.spawn(move || other.reclaim()),
                );
                (one.join().unwrap(), two.join().unwrap())
            });
            assert!(one.is_err() || two.is_err());
            drop((one, two));
            reader.synchronize().unwrap();
            drop(reader);
            // The free waits on the device's stream for frees. A synchronised allocation shows that
            // memory can still be allocated.
            assert!(gpu.simulator().unwrap().counters().allocations_live <= 1);
        })
        .unwrap();
    }
}

/// Two threads are the first readers of a lazily shared bundle. Both need the writer's event, and
/// the event of one of them may be lost.
#[test]
fn attack_two_threads_need_the_event_of_a_lazy_share_at_once() {
    for round in 0..500 {
        Device::simulated(lazy(round), |gpu| {
            let (reader, writer) = (
                gpu.stream::<Reader<_>>().unwrap(),
                gpu.stream::<Writer<_>>().unwrap(),
            );
            let mut data = writer.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            let source = writer
                .init_filled(writer.alloc_uninit::<u32>(LEN).unwrap(), 3)
                .unwrap();
            writer.copy_to_host(&source, &mut data).unwrap();
            let shared = writer.share_lazily(data).unwrap();
            let copy = std::thread::scope(|scope| {
                let host = scope.spawn(|| assert_eq!(**shared.host().unwrap(), [3; LEN]));
                let copy = scope.spawn(|| {
                    let lease = reader.lease(&shared).unwrap();
                    reader
                        .init_from_host(reader.alloc_uninit(LEN).unwrap(), &lease.view())
                        .unwrap()
                });
                host.join().unwrap();
                copy.join().unwrap()
            });
            let mut data = shared.reclaim().unwrap().synchronize().unwrap();
            data.fill(9);
            let mut seen = reader.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            reader.copy_to_host(&copy, &mut seen).unwrap();
            assert_eq!(*downloaded(&reader, seen), [3; LEN], "round {round}");
        })
        .unwrap();
    }
}

/// The event of a lazy share cannot be recorded: no reader gets the bundle as if it were written.
#[test]
fn attack_a_lazy_share_whose_event_cannot_be_recorded_is_read() {
    Device::simulated(lazy(0), |gpu| {
        let (reader, writer) = (
            gpu.stream::<Reader<_>>().unwrap(),
            gpu.stream::<Writer<_>>().unwrap(),
        );
        let simulator = gpu.simulator().unwrap();
        let shared = writer
            .share_lazily(writer.alloc_zeroed::<u32>(LEN).unwrap())
            .unwrap();
        for _ in 0..2 {
            simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
            assert!(reader.lease(&shared).is_err());
            simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
            assert!(shared.host().is_err());
        }
        // The reads of the writer's stream have no event until someone else asks.
        drop(writer.lease(&shared).unwrap());
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        let handoff = shared.reclaim().unwrap();
        assert!(reader.try_acquire(handoff).is_err());
    })
    .unwrap();
}
