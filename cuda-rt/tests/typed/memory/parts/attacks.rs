//! Attacks on parts of one block: in leases, in graphs, and on two devices.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};

cuda_rt::streams! {
    Download;
    Compute;
}

const LEN: usize = 64;

/// Two halves of one block. The first is shared and leased, and the lease moves into a graph. The
/// second is written, split again, and dropped in a capture, on a pooled stream, and after a failed
/// record. In no order may the block be freed early, or twice.
#[test]
fn attack_a_part_in_a_lease_in_a_graph_while_the_rest_is_dropped_elsewhere() {
    for (seed, lost) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = SimConfig::default().seed(seed).order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let pool = gpu.stream_pool(1).unwrap();
            let simulator = gpu.simulator().unwrap().clone();
            let mut first = compute.alloc_uninit::<u32>(3 * LEN).unwrap();
            let mut rest = first.split_off(LEN);
            let last = rest.split_off(LEN);
            let nothing = rest.split_off(LEN);
            let first = compute.init_filled(first, 7).unwrap();
            let shared = compute.share((first, nothing)).unwrap();
            let rest = compute.release(rest).unwrap();
            let last = compute.release(last).unwrap();
            let out = download.alloc_zeroed::<u32>(LEN).unwrap();
            let lease = download.lease(&shared).unwrap();
            let mut graph = download
                .capture((lease, out), |stream, ((first, _), mut out)| {
                    // These come from outside, and are dropped while other work is recorded.
                    drop(last);
                    stream.copy(&first, &mut out)
                })
                .unwrap();
            graph.launch(&download).unwrap();
            pool.with(|stream| {
                let rest = stream.init_filled(stream.acquire(rest)?, 9)?;
                if lost {
                    simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
                }
                drop(rest);
                let lease = stream.lease(&shared)?;
                stream.release(lease).map(drop)
            })
            .unwrap();
            graph.launch(&download).unwrap();
            let (lease, out) = graph.into_inner();
            let mut host = download.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            download.copy_to_host(&out, &mut host).unwrap();
            let Err(shared) = shared.reclaim() else {
                panic!("a lease is out")
            };
            drop(lease);
            let (mut first, nothing) = compute.acquire(shared.reclaim().unwrap()).unwrap();
            compute.fill(&mut first, 1).unwrap();
            drop(first);
            drop((nothing, out));
            assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [7; LEN]);
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            compute.synchronize().unwrap();
            drop(gpu.stream::<Download<_>>().unwrap().synchronize());
            let left = simulator.counters();
            assert_eq!(
                left.allocations_live - left.blocks_free,
                usize::from(lost),
                "seed {seed}"
            );
            assert!(gpu.races().is_empty());
        })
        .unwrap();
    }
}

/// Halves of one pinned block go to two devices. The half dropped last returns the block to its
/// device's pool. The pool must not hand the block out while the other device still writes to it,
/// even after that device is dropped.
#[test]
fn attack_halves_of_a_pinned_block_on_two_devices() {
    for (seed, here_last) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = || {
            SimConfig::default()
                .seed(seed)
                .order(Order::Lazy)
                .most_pending(usize::MAX)
        };
        Device::simulated(config(), |there| {
            Device::simulated(config(), |here| {
                let (ours, theirs) = (
                    here.stream::<Download<_>>().unwrap(),
                    there.stream::<Download<_>>().unwrap(),
                );
                let mut first = here.pinned::<u32>(2 * LEN).unwrap();
                let second = first.split_off(LEN).for_device(&there).unwrap();
                let (one, two) = (
                    ours.init_filled(ours.alloc_uninit::<u32>(LEN).unwrap(), 1)
                        .unwrap(),
                    theirs
                        .init_filled(theirs.alloc_uninit::<u32>(LEN).unwrap(), 2)
                        .unwrap(),
                );
                let (mut first, mut second) = (ours.adopt(first).unwrap(), theirs.adopt(second).unwrap());
                ours.copy_to_host(&one, &mut first).unwrap();
                theirs.copy_to_host(&two, &mut second).unwrap();
                if here_last {
                    drop(second);
                    drop(ours.release(first).unwrap());
                } else {
                    drop(first);
                    drop(theirs.release(second).unwrap());
                }
                let fresh = (
                    here.pinned_from(&[5_u32; 2 * LEN]).unwrap(),
                    there.pinned_from(&[6_u32; 2 * LEN]).unwrap(),
                );
                ours.synchronize().unwrap();
                theirs.synchronize().unwrap();
                assert_eq!(
                    (&fresh.0[..], &fresh.1[..]),
                    (&[5; 2 * LEN][..], &[6; 2 * LEN][..])
                );
            })
            .unwrap();
            there.stream::<Download<_>>().unwrap().synchronize().unwrap();
            drop(there.pinned::<u32>(2 * LEN).unwrap());
        })
        .unwrap();
    }
}
