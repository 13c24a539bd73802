//! Device memory that is kept for reuse: which calls it saves, and when it is given back.

mod attacks;
mod bounds;
mod ownership;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Live, Scoped, Stream};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Download;
    Other;
}

const LEN: usize = 1000;
/// The unit of the tests that fill the device.
const PART: usize = 1 << 16;

fn filled<D: Live>(on: &Stream<Compute<D>>, value: u32) -> DeviceBuffer<u32, Compute<D>> {
    on.init_filled(on.alloc_uninit(LEN).unwrap(), value).unwrap()
}

/// The number of allocations and of frees that reached the driver.
fn calls<D: Live>(gpu: &Device<D>) -> (u64, u64) {
    let counters = gpu.simulator().unwrap().counters();
    (counters.calls(Call::Alloc), counters.calls(Call::Free))
}

/// Runs `body` on simulated devices of several seeds and orders.
fn adversarial(bytes: usize, body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for seed in 0..16 {
        for order in [Order::Random, Order::Lazy] {
            let config = SimConfig::new()
                .seed(seed)
                .order(order)
                .memory_bytes(bytes as u64);
            let simulator = Device::simulated(config, |gpu| {
                body(&gpu);
                gpu.simulator().unwrap().clone()
            })
            .unwrap();
            let left = simulator.counters();
            assert_eq!(
                (left.allocations_live, left.streams_live, left.events_live),
                (0, 0, 0),
                "seed {seed}, {order:?}"
            );
        }
    }
}

#[test]
fn a_steady_state_of_buffers_makes_no_call() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for len in [1, 128, LEN, 40 * PART] {
            // Two at once, then in turns.
            let warm = [(); 2].map(|()| compute.alloc_uninit::<u32>(len).unwrap());
            drop(warm);
            let before = calls(gpu);
            for _ in 0..20 {
                let first = compute.alloc_uninit::<u32>(len).unwrap();
                // A length of the same size.
                let second = compute.alloc_uninit::<u32>(len - len / 100).unwrap();
                drop((first, second));
            }
            assert_eq!(calls(gpu), before, "{len}");
        }
        // A buffer of no bytes has no block.
        let before = calls(gpu);
        drop(compute.alloc_uninit::<u32>(0).unwrap());
        assert_eq!(calls(gpu), before);
    });
}

/// The host runs ahead of the device: memory is reused in the stream's order, without a wait.
#[test]
fn pending_work_does_not_keep_a_stream_from_its_blocks() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(50 * LEN).unwrap()).unwrap();
        for round in 0..50 {
            let buffer = filled(&compute, round as u32);
            compute
                .copy_to_host(&buffer, &mut host[round * LEN..][..LEN])
                .unwrap();
        }
        assert_eq!(calls(gpu), (1, 0));
        let host = compute.release(host).unwrap().synchronize().unwrap();
        for (round, values) in host.chunks_exact(LEN).enumerate() {
            assert!(values.iter().all(|value| *value == round as u32), "{round}");
        }
    });
}

/// One stream allocates, another drops. The blocks come back once the second stream is done, and
/// the second stream hoards none.
#[test]
fn blocks_return_to_the_stream_that_allocates() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        for round in 0..30 {
            let ours = filled(&compute, round);
            let theirs = download.acquire(compute.release(ours).unwrap()).unwrap();
            assert_eq!(download.copy_to_vec(&theirs).unwrap(), [round; LEN]);
            drop(theirs);
            download.synchronize().unwrap();
        }
        assert_eq!(calls(gpu).0, 1);
        // A dropped handoff comes back too.
        for round in 0..30 {
            drop(compute.release(filled(&compute, round)).unwrap());
            gpu.synchronize().unwrap();
        }
        assert_eq!(calls(gpu), (1, 0));
    });
}

/// The streams change their roles again and again: each keeps no more than was allocated for it.
#[test]
fn streams_that_change_roles_do_not_allocate_for_ever() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        for _ in 0..20 {
            for _ in 0..5 {
                let ours = compute.alloc_uninit::<u32>(LEN).unwrap();
                drop(download.acquire(compute.release(ours).unwrap()).unwrap());
                gpu.synchronize().unwrap();
            }
            for _ in 0..5 {
                let ours = download.alloc_uninit::<u32>(LEN).unwrap();
                drop(compute.acquire(download.release(ours).unwrap()).unwrap());
                gpu.synchronize().unwrap();
            }
        }
        let (allocated, freed) = calls(gpu);
        assert!(allocated <= 2 && freed == 0, "{allocated}, {freed}");
    });
}

#[test]
fn parts_of_a_block_and_a_block_joined_again_are_reused() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for round in 0..10 {
            let mut first = filled(&compute, round);
            let rest = first.split_off(LEN / 3);
            match round % 2 {
                0 => drop((first, rest)),
                _ => drop(first.join(rest).unwrap().cast::<u8>().unwrap()),
            }
        }
        assert_eq!(calls(gpu), (1, 0));
    });
}

/// The parts of a block end on two streams, so no stream's order covers all uses.
#[test]
fn a_block_whose_parts_end_on_two_streams_is_reused_behind_both() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        for round in 0..10 {
            let mut first = filled(&compute, round);
            let rest = download
                .acquire(compute.release(first.split_off(LEN / 2)).unwrap())
                .unwrap();
            compute.fill(&mut first, round + 1).unwrap();
            let mut host = download.adopt(gpu.pinned::<u32>(LEN / 2).unwrap()).unwrap();
            download.copy_to_host(&rest, &mut host).unwrap();
            drop((first, rest));
            let next = filled(&compute, 77);
            let host = download.release(host).unwrap().synchronize().unwrap();
            assert_eq!(*host, [round; LEN / 2]);
            assert_eq!(compute.copy_to_vec(&next).unwrap(), [77; LEN]);
            gpu.synchronize().unwrap();
        }
    });
}

/// Blocks of other sizes, and of other streams, go back if an allocation would fail.
#[test]
fn an_allocation_that_would_fail_takes_what_is_kept() {
    adversarial(64 * PART, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let other = gpu.stream::<Other<_>>().unwrap();
        drop(compute.alloc_zeroed::<u8>(20 * PART).unwrap());
        drop(other.alloc_zeroed::<u8>(20 * PART).unwrap());
        drop(compute.alloc_zeroed::<u8>(10 * PART).unwrap());
        gpu.synchronize().unwrap();
        let large = compute.alloc_zeroed::<u8>(60 * PART).unwrap();
        assert_eq!(compute.copy_to_vec(&large[..10]).unwrap(), [0; 10]);
        let error = other.alloc_zeroed::<u8>(20 * PART).unwrap_err();
        assert_eq!(error.driver().unwrap().code(), ErrorCode::OUT_OF_MEMORY);
        drop(large);
        compute.synchronize().unwrap();
        drop(other.alloc_zeroed::<u8>(60 * PART).unwrap());
    });
}

/// A stream may always have the memory that it dropped itself, as in CUDA's pool.
#[test]
fn an_allocation_takes_the_streams_own_memory_while_work_is_pending_on_it() {
    adversarial(64 * PART, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(3 * LEN).unwrap()).unwrap();
        for (round, parts) in [40, 50, 60].into_iter().enumerate() {
            let buffer = compute.alloc_uninit(parts * PART / 4).unwrap();
            let buffer = compute.init_filled(buffer, round as u32).unwrap();
            let to = &mut host[round * LEN..][..LEN];
            compute.copy_to_host(&buffer[..LEN], to).unwrap();
        }
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(
            host.chunks_exact(LEN)
                .zip(0..)
                .all(|(values, round)| *values == [round; LEN])
        );
    });
}

#[test]
fn a_trim_gives_back_what_is_over_and_nothing_else() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let other = gpu.stream::<Other<_>>().unwrap();
        let kept = other.alloc_zeroed::<u8>(PART).unwrap();
        for stream in 0..2 {
            match stream {
                0 => drop(compute.alloc_zeroed::<u8>(PART).unwrap()),
                _ => drop(other.alloc_zeroed::<u8>(2 * PART).unwrap()),
            }
        }
        let stats = gpu.memory_pool_stats().unwrap();
        assert_eq!(
            (stats.used_bytes, stats.reserved_bytes),
            (PART as u64, 4 * PART as u64)
        );
        gpu.synchronize().unwrap();
        gpu.trim(3 * PART as u64).unwrap();
        assert!(gpu.memory_pool_stats().unwrap().reserved_bytes <= 3 * PART as u64);
        gpu.trim(0).unwrap();
        let stats = gpu.memory_pool_stats().unwrap();
        assert_eq!(
            (stats.used_bytes, stats.reserved_bytes),
            (PART as u64, PART as u64)
        );
        assert_eq!(other.copy_to_vec(&kept[PART - 4..]).unwrap(), [0; 4]);
        // What was given back is allocated anew.
        let before = calls(gpu).0;
        drop(compute.alloc_zeroed::<u8>(PART).unwrap());
        assert_eq!(calls(gpu).0, before + 1);
    });
}

#[test]
fn the_release_threshold_limits_what_is_kept() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let buffers = [(); 8].map(|()| compute.alloc_zeroed::<u8>(PART).unwrap());
        gpu.set_release_threshold(3 * PART as u64).unwrap();
        drop(buffers);
        let kept = || gpu.simulator().unwrap().counters().blocks_free;
        assert_eq!(kept(), 3);
        gpu.synchronize().unwrap();
        gpu.set_release_threshold(PART as u64).unwrap();
        assert_eq!(kept(), 1);
        gpu.set_release_threshold(0).unwrap();
        assert_eq!(kept(), 0);
        for _ in 0..4 {
            drop(compute.alloc_zeroed::<u8>(PART).unwrap());
        }
        assert_eq!(kept(), 0);
    });
}

#[test]
fn without_caching_each_buffer_is_an_allocation() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let of_the_pool = filled(&compute, 1);
        drop(filled(&compute, 2));
        compute.synchronize().unwrap();
        gpu.set_memory_caching(false);
        assert_eq!(gpu.simulator().unwrap().counters().blocks_free, 0);
        let before = calls(gpu);
        drop(of_the_pool);
        let of_the_driver = filled(&compute, 3);
        drop(filled(&compute, 4));
        assert_eq!(calls(gpu), (before.0 + 2, before.1 + 2));
        // Its allocation is shorter than a block: no larger buffer may get it.
        gpu.set_memory_caching(true);
        drop(of_the_driver);
        assert_eq!(calls(gpu), (before.0 + 2, before.1 + 3));
        assert_eq!(compute.copy_to_vec(&filled(&compute, 5)).unwrap(), [5; LEN]);
    });
}

/// Also on a GPU: what comes back from the pool holds what its next owner writes.
#[test]
fn reused_memory_holds_what_its_next_owner_writes() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        let mut there = Vec::new();
        for round in 0..60 {
            let first = filled(&compute, round);
            let second = filled(&compute, round + 1000);
            drop(first);
            there.push((round, download.acquire(compute.release(second).unwrap()).unwrap()));
            if round % 7 == 6 {
                for (round, buffer) in there.drain(..) {
                    assert_eq!(download.copy_to_vec(&buffer).unwrap(), [round + 1000; LEN]);
                }
                gpu.trim(0).unwrap();
            }
        }
        assert!(gpu.races().is_empty());
    });
}

/// Many threads use one stream: no block has two owners.
#[test]
fn threads_that_share_a_stream_share_its_blocks() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let compute = &compute;
                scope.spawn(move || {
                    for round in 0..20 {
                        let value = thread * 100 + round;
                        let [first, second] = [value, value + 1000].map(|value| filled(compute, value));
                        assert_eq!(compute.copy_to_vec(&first).unwrap(), [value; LEN]);
                        drop(first);
                        assert_eq!(compute.copy_to_vec(&second).unwrap(), [value + 1000; LEN]);
                    }
                });
            }
        });
        if let Some(simulator) = gpu.simulator() {
            assert!(simulator.counters().calls(Call::Alloc) <= 8);
        }
    });
}
