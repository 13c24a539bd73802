//! Attacks: a block reaches its next owner under the work of the last one.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Live, PinnedBuffer, Stream, StreamTag};

use super::{Compute, Download, LEN, Other, PART, adversarial, filled};

/// A buffer that is dropped while its copy to the host is pending.
fn dropped_under_a_copy<D: Live, S: StreamTag<Device = D>>(
    gpu: &Device<D>,
    on: &Stream<S>,
    value: u32,
) -> PinnedBuffer<u32, S> {
    let buffer = on.init_filled(on.alloc_uninit(LEN).unwrap(), value).unwrap();
    let mut host = on.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
    on.copy_to_host(&buffer, &mut host).unwrap();
    host
}

/// Each stream drops a buffer under its copy, and the others allocate at once.
#[test]
fn attack_take_the_block_that_another_stream_still_reads() {
    adversarial(1 << 30, |gpu| {
        let (compute, download, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        for round in 0..5 {
            let first = dropped_under_a_copy(gpu, &compute, round);
            let second = dropped_under_a_copy(gpu, &download, round + 10);
            let third = dropped_under_a_copy(gpu, &other, round + 20);
            // These would get the blocks.
            drop(dropped_under_a_copy(gpu, &download, 91));
            drop(dropped_under_a_copy(gpu, &other, 92));
            drop(dropped_under_a_copy(gpu, &compute, 93));
            assert_eq!(
                *compute.release(first).unwrap().synchronize().unwrap(),
                [round; LEN]
            );
            let second = download.release(second).unwrap().synchronize().unwrap();
            assert_eq!(*second, [round + 10; LEN]);
            let third = other.release(third).unwrap().synchronize().unwrap();
            assert_eq!(*third, [round + 20; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// A handoff is dropped while the work before it is pending.
#[test]
fn attack_take_the_block_of_a_handoff_that_is_pending() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let other = gpu.stream::<Other<_>>().unwrap();
        for round in 0..5 {
            let buffer = filled(&compute, round);
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            compute.copy_to_host(&buffer, &mut host).unwrap();
            drop(compute.release(buffer).unwrap());
            // These would get the block.
            let next: [DeviceBuffer<u32, _>; 2] = [81, 82].map(|value| {
                other
                    .init_filled(other.alloc_uninit(LEN).unwrap(), value)
                    .unwrap()
            });
            assert_eq!(
                *compute.release(host).unwrap().synchronize().unwrap(),
                [round; LEN]
            );
            assert_eq!(other.copy_to_vec(&next[1]).unwrap(), [82; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// A stream drops a buffer that came from another stream, and the other stream allocates.
#[test]
fn attack_take_the_block_that_its_last_stream_still_reads() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        for round in 0..5 {
            let buffer = filled(&compute, round);
            let buffer = download.acquire(compute.release(buffer).unwrap()).unwrap();
            let mut host = download.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            download.copy_to_host(&buffer, &mut host).unwrap();
            drop(buffer);
            let next = filled(&compute, 71);
            assert_eq!(
                *download.release(host).unwrap().synchronize().unwrap(),
                [round; LEN]
            );
            assert_eq!(compute.copy_to_vec(&next).unwrap(), [71; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// A trim, and an allocation that would fail, while work is pending on what is kept.
#[test]
fn attack_give_back_the_block_that_a_stream_still_reads() {
    adversarial(64 * PART, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let other = gpu.stream::<Other<_>>().unwrap();
        for round in 0..4 {
            let host = dropped_under_a_copy(gpu, &compute, round);
            match round {
                0 => gpu.trim(0).unwrap(),
                1 => gpu.set_release_threshold(0).unwrap(),
                2 => {
                    gpu.set_release_threshold(u64::MAX).unwrap();
                    // There is not enough memory for this.
                    other.alloc_zeroed::<u8>(65 * PART).unwrap_err();
                }
                _ => gpu.set_memory_caching(false),
            }
            // These would get the memory.
            let next = [61, 62].map(|value| {
                other
                    .init_filled(other.alloc_uninit::<u32>(LEN).unwrap(), value)
                    .unwrap()
            });
            assert_eq!(
                *compute.release(host).unwrap().synchronize().unwrap(),
                [round; LEN]
            );
            assert_eq!(other.copy_to_vec(&next[0]).unwrap(), [61; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// Memory is not zeroed between its owners, and the next owner cannot see that: `alloc_uninit`
/// gives it no right to read. The simulated device overwrites it twice.
#[test]
fn reused_memory_is_junk_again() {
    for seed in 0..8 {
        Device::simulated(SimConfig::new().seed(seed).order(Order::Lazy), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            drop(filled(&compute, 5));
            let raw = compute.alloc_uninit::<u32>(LEN).unwrap();
            // A copy of nothing writes nothing; the other elements stay as they are.
            assert_eq!(gpu.simulator().unwrap().counters().calls(Call::Alloc), 1);
            let shown = super::ownership::unwritten(&compute, raw);
            assert!(shown.iter().all(|value| *value != 5), "seed {seed}");
        })
        .unwrap();
    }
}

/// The end of the last use cannot be recorded, or the wait behind it cannot be made.
#[test]
fn attack_lose_the_order_of_a_dropped_buffer() {
    for call in [
        Call::RecordEvent,
        Call::WaitEvent,
        Call::QueryEvent,
        Call::QueryStream,
    ] {
        for nth in 1..4 {
            adversarial(1 << 30, |gpu| {
                let simulator = gpu.simulator().unwrap();
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let download = gpu.stream::<Download<_>>().unwrap();
                let buffer = filled(&compute, 1);
                let buffer = download.acquire(compute.release(buffer).unwrap()).unwrap();
                let mut host = download.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
                download.copy_to_host(&buffer, &mut host).unwrap();
                let kept = dropped_under_a_copy(gpu, &compute, 3);
                simulator.fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
                drop(buffer);
                gpu.trim(0).unwrap();
                let next = filled(&compute, 2);
                simulator.clear_faults();
                assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [1; LEN]);
                assert_eq!(*compute.release(kept).unwrap().synchronize().unwrap(), [3; LEN]);
                assert_eq!(compute.copy_to_vec(&next).unwrap(), [2; LEN]);
            });
        }
    }
}
