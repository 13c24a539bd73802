//! What the streams keep is bounded: blocks that one stream allocates and another drops, however
//! many, and however earlier blocks have ended.

use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Live, Stream};

use super::{Compute, Download, LEN, Other, PART, adversarial, calls};

/// Each way in which a block of the pool ends, other than on a stream that keeps it.
#[derive(Clone, Copy, Debug)]
enum End {
    NoRoom,
    NoRoomForAnother,
    CachingIsOff,
    GivenAway,
    Trimmed,
    NoFullMemory,
    NoRecord,
}

const ENDS: [End; 7] = [
    End::NoRoom,
    End::NoRoomForAnother,
    End::CachingIsOff,
    End::GivenAway,
    End::Trimmed,
    End::NoFullMemory,
    End::NoRecord,
];

/// Ends `count` blocks that were allocated for `on`.
fn end_blocks<D: Live>(
    gpu: &Device<D>,
    on: &Stream<Download<D>>,
    other: &Stream<Other<D>>,
    (end, count): (End, usize),
) {
    let simulator = gpu.simulator().unwrap();
    let there = |buffer| other.acquire(on.release(buffer).unwrap()).unwrap();
    let mut buffers: Vec<DeviceBuffer<u8, _>> = Vec::new();
    for _ in 0..count {
        buffers.push(on.alloc_zeroed(PART).unwrap());
    }
    match end {
        End::NoRoom => {
            gpu.set_release_threshold(0).unwrap();
            drop(buffers);
            gpu.set_release_threshold(u64::MAX).unwrap();
        }
        End::NoRoomForAnother => {
            gpu.set_release_threshold(0).unwrap();
            buffers.into_iter().for_each(|buffer| drop(there(buffer)));
            gpu.set_release_threshold(u64::MAX).unwrap();
        }
        End::CachingIsOff => {
            gpu.set_memory_caching(false);
            drop(buffers);
            gpu.set_memory_caching(true);
        }
        End::GivenAway => {
            for buffer in buffers {
                let (address, len) = buffer.into_raw();
                // SAFETY: from `into_raw` of this device, in the order of this stream.
                drop(unsafe { DeviceBuffer::<u8, _>::from_raw(on, address, len) });
            }
        }
        End::Trimmed => {
            buffers.into_iter().for_each(|buffer| drop(there(buffer)));
            gpu.synchronize().unwrap();
            gpu.trim(0).unwrap();
        }
        End::NoFullMemory => {
            buffers.into_iter().for_each(|buffer| drop(there(buffer)));
            gpu.synchronize().unwrap();
            on.alloc_uninit::<u8>(1 << 40).unwrap_err();
        }
        End::NoRecord => {
            for buffer in buffers {
                let buffer = there(buffer);
                simulator.fail_nth(Call::RecordEvent, 1, ErrorCode::INVALID_VALUE);
                drop(buffer);
            }
        }
    }
    simulator.clear_faults();
    gpu.synchronize().unwrap();
}

/// Blocks that have ended count for no stream: the stream that drops must not keep those of
/// another in their place, or the other would allocate for ever.
#[test]
fn a_stream_keeps_nothing_in_the_place_of_blocks_that_have_ended() {
    for end in ENDS {
        for order in [Order::Eager, Order::Random, Order::Lazy] {
            let config = SimConfig::new()
                .order(order)
                .memory_bytes(1 << 30)
                .check(Check::Record);
            Device::simulated(config, |gpu| {
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let download = gpu.stream::<Download<_>>().unwrap();
                let other = gpu.stream::<Other<_>>().unwrap();
                end_blocks(&gpu, &download, &other, (end, 60));
                let before = calls(&gpu).0;
                for round in 0..80 {
                    let buffer = compute.alloc_uninit::<u8>(PART).unwrap();
                    drop(download.acquire(compute.release(buffer).unwrap()).unwrap());
                    if round % 4 == 3 {
                        gpu.synchronize().unwrap();
                    }
                }
                let allocated = calls(&gpu).0 - before;
                assert!(allocated <= 8, "{end:?}: {allocated}");
                assert!(gpu.races().is_empty());
            })
            .unwrap();
        }
    }
}

/// A stream with blocks of its own still keeps them after another stream's blocks have ended.
#[test]
fn a_stream_keeps_its_own_blocks_while_blocks_of_others_end() {
    for end in ENDS {
        let config = SimConfig::new().order(Order::Lazy).memory_bytes(1 << 30);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let download = gpu.stream::<Download<_>>().unwrap();
            let other = gpu.stream::<Other<_>>().unwrap();
            let held = [(); 4].map(|()| compute.alloc_zeroed::<u8>(PART).unwrap());
            end_blocks(&gpu, &download, &other, (end, 4));
            drop(held);
            let records = || gpu.simulator().unwrap().counters().calls(Call::RecordEvent);
            let before = (calls(&gpu), records());
            for _ in 0..10 {
                drop([(); 4].map(|()| compute.alloc_zeroed::<u8>(PART).unwrap()));
            }
            assert_eq!((calls(&gpu), records()), before, "{end:?}");
        })
        .unwrap();
    }
}

/// Blocks that a stream drops in a row, and that nobody takes, hold one event. With work between
/// the drops they hold few. So the stream still shares its records.
#[test]
fn drops_that_nobody_takes_leave_a_stream_its_events() {
    for (dropped, work) in [(0, false), (100, false), (2000, false), (100, true), (2000, true)] {
        let config = SimConfig::new().order(Order::Eager).memory_bytes(1 << 30);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let download = gpu.stream::<Download<_>>().unwrap();
            let other = gpu.stream::<Other<_>>().unwrap();
            let count = |call| gpu.simulator().unwrap().counters().calls(call);
            let raw = |len| compute.alloc_zeroed::<u8>(len).unwrap();
            let there: Vec<_> = (0..dropped)
                .map(|_| download.acquire(compute.release(raw(LEN)).unwrap()).unwrap())
                .collect();
            let mut small = download.acquire(compute.release(raw(1)).unwrap()).unwrap();
            let events = count(Call::CreateEvent);
            for buffer in there {
                if work {
                    download.fill(&mut small, 1).unwrap();
                }
                drop(buffer);
            }
            let made = count(Call::CreateEvent) - events;
            assert!(
                made <= if work { 64 } else { 3 },
                "{dropped}, {work}: {made} events"
            );
            // No work is between these handoffs, so they share a record and a wait.
            let buffers: Vec<_> = (0..10)
                .map(|_| download.acquire(compute.release(raw(100)).unwrap()).unwrap())
                .collect();
            let before = (count(Call::RecordEvent), count(Call::WaitEvent));
            for buffer in buffers {
                std::mem::forget(other.acquire(download.release(buffer).unwrap()).unwrap());
            }
            let made = (
                count(Call::RecordEvent) - before.0,
                count(Call::WaitEvent) - before.1,
            );
            assert_eq!(made, (1, 1), "{dropped}, {work}");
        })
        .unwrap();
    }
}

/// Buffers that are dropped in a row share the end of their uses. It must be the end of the last.
#[test]
fn attack_take_the_last_block_of_drops_in_a_row() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        for work in [0, 1, 2, 3, 1, 0] {
            let values = [1, 2, 3, 4];
            let there = values.map(|value| {
                let ours = super::filled(&compute, value);
                download.acquire(compute.release(ours).unwrap()).unwrap()
            });
            let mut host = download.adopt(gpu.pinned::<u32>(4 * LEN).unwrap()).unwrap();
            for (place, buffer) in there.iter().enumerate().skip(work) {
                let to = &mut host[place * LEN..][..LEN];
                download.copy_to_host(buffer, to).unwrap();
            }
            for (place, buffer) in there.into_iter().enumerate() {
                if place < work {
                    let to = &mut host[place * LEN..][..LEN];
                    download.copy_to_host(&buffer, to).unwrap();
                }
                drop(buffer);
            }
            // These ask for the blocks again and again, while the copies end one by one.
            let next = [(); 8].map(|()| super::filled(&compute, 90));
            let host = download.release(host).unwrap().synchronize().unwrap();
            for (values, value) in host.chunks_exact(LEN).zip(values) {
                assert!(values.iter().all(|found| *found == value));
            }
            for buffer in next {
                assert_eq!(compute.copy_to_vec(&buffer).unwrap(), [90; LEN]);
            }
        }
        assert!(gpu.races().is_empty());
    });
}
