//! Parts of one block with different fates: split, dropped, leaked, pending and joined, in
//! adversarial orders and with faults.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig, Simulator};
use cuda_rt::{Device, DeviceBuffer, Error, Handoff, PinnedBuffer, Scoped, Stream, StreamTag};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Upload;
    Download;
}

const LEN: usize = 96;

/// The contents of a buffer, brought to the host by its own stream.
fn read<'id, S: StreamTag<Device = Scoped<'id>>>(
    gpu: &Device<Scoped<'id>>,
    stream: &Stream<S>,
    buffer: &DeviceBuffer<u32, S>,
) -> Vec<u32> {
    let mut host = stream.adopt(gpu.pinned::<u32>(buffer.len()).unwrap()).unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

/// Runs `body` with simulated devices in many orders, the lazy order included. Afterwards the
/// device must hold `live` blocks.
fn adversarial(live: usize, body: impl for<'id> Fn(&Device<Scoped<'id>>, u64)) {
    for seed in 0..24 {
        for order in [Order::Random, Order::Lazy] {
            let simulator = Device::simulated(SimConfig::new().seed(seed).order(order), |gpu| {
                body(&gpu, seed);
                gpu.simulator().unwrap().clone()
            })
            .unwrap();
            assert_eq!(
                simulator.counters().allocations_live,
                live,
                "seed {seed}, {order:?}"
            );
        }
    }
}

fn frees(simulator: &Simulator) -> u64 {
    simulator.counters().frees()
}

#[test]
fn halves_travel_apart_and_come_together() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut first = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let mut second = first.split_off(32);
        assert_eq!((first.len(), second.len()), (32, LEN - 32));
        compute.fill(&mut first, 1).unwrap();
        let first = download.acquire(compute.release(first).unwrap()).unwrap();
        compute.fill(&mut second, 2).unwrap();
        assert_eq!(read(gpu, &download, &first), [1; 32]);
        let first = compute.acquire(download.release(first).unwrap()).unwrap();
        let whole = first.join(second).unwrap();
        let expected = [vec![1; 32], vec![2; LEN - 32]].concat();
        assert_eq!(read(gpu, &compute, &whole), expected);
    });
}

/// Nothing gets a part's memory while another part is in use. The next owner's junk would show a
/// block that was freed with the first dropped part, or ordered only after the last part.
#[test]
fn the_block_outlives_its_last_part_in_any_order() {
    adversarial(0, |gpu, seed| {
        let (compute, upload, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut a = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.fill(&mut a, 7).unwrap();
        let mut b = a.split_off(32);
        let c = b.split_off(32);
        let b = upload.acquire(compute.release(b).unwrap()).unwrap();
        let c = download.acquire(compute.release(c).unwrap()).unwrap();
        // These reads are pending when the parts are dropped.
        let mut hosts = (
            compute.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap(),
            upload.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap(),
            download.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap(),
        );
        compute.copy_to_host(&a, &mut hosts.0).unwrap();
        upload.copy_to_host(&b, &mut hosts.1).unwrap();
        download.copy_to_host(&c, &mut hosts.2).unwrap();
        match seed % 6 {
            0 => drop((a, b, c)),
            1 => drop((a, c, b)),
            2 => drop((b, a, c)),
            3 => drop((b, c, a)),
            4 => drop((c, a, b)),
            _ => drop((c, b, a)),
        }
        let again = [(); 4].map(|()| {
            let mut other = upload.alloc_zeroed::<u32>(LEN).unwrap();
            upload.fill(&mut other, 9).unwrap();
            other
        });
        assert_eq!(*compute.release(hosts.0).unwrap().synchronize().unwrap(), [7; 32]);
        assert_eq!(*upload.release(hosts.1).unwrap().synchronize().unwrap(), [7; 32]);
        assert_eq!(
            *download.release(hosts.2).unwrap().synchronize().unwrap(),
            [7; 32]
        );
        for other in &again {
            assert_eq!(read(gpu, &upload, other), [9; LEN]);
        }
    });
}

/// Dropped handoffs free memory after their fences; the handoff dropped last does not decide alone.
#[test]
fn parts_pending_in_handoffs_are_dropped() {
    adversarial(0, |gpu, seed| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut a = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.fill(&mut a, 5).unwrap();
        let b = a.split_off(LEN / 2);
        let a = download.acquire(compute.release(a).unwrap()).unwrap();
        let mut host_a = download.adopt(gpu.pinned::<u32>(LEN / 2).unwrap()).unwrap();
        let mut host_b = compute.adopt(gpu.pinned::<u32>(LEN / 2).unwrap()).unwrap();
        download.copy_to_host(&a, &mut host_a).unwrap();
        compute.copy_to_host(&b, &mut host_b).unwrap();
        let (a, b) = (download.release(a).unwrap(), compute.release(b).unwrap());
        match seed % 3 {
            0 => drop((a, b)),
            1 => drop((b, a)),
            _ => drop(Handoff::join((a, b))),
        }
        for _ in 0..4 {
            let mut other = compute.alloc_zeroed::<u32>(LEN).unwrap();
            compute.fill(&mut other, 8).unwrap();
        }
        assert_eq!(
            *download.release(host_a).unwrap().synchronize().unwrap(),
            [5; LEN / 2]
        );
        assert_eq!(
            *compute.release(host_b).unwrap().synchronize().unwrap(),
            [5; LEN / 2]
        );
    });
}

#[test]
fn a_leaked_part_keeps_the_block_and_no_more() {
    adversarial(1, |gpu, _| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut kept = compute.alloc_zeroed::<u32>(LEN).unwrap();
        std::mem::forget(kept.split_off(10));
        compute.fill(&mut kept, 3).unwrap();
        assert_eq!(read(gpu, &compute, &kept), [3; 10]);
    });
}

/// A block that is whole again is freed as if it had never been split: in its stream's order,
/// without an event.
#[test]
fn a_block_joined_whole_is_as_before() {
    adversarial(0, |gpu, _| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut a = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let mut b = a.split_off(10);
        let c = b.split_off(20);
        let whole = a.join(b.join(c).unwrap()).unwrap();
        let recorded = simulator.counters().calls(Call::RecordEvent);
        drop(whole);
        assert_eq!(simulator.counters().calls(Call::RecordEvent), recorded);
        assert_eq!(frees(simulator), 1);
    });
}

#[test]
fn only_neighbours_are_joined_and_both_come_back() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut a = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let mut b = a.split_off(10);
        let c = b.split_off(20);
        let refused = a.try_join(c).unwrap_err();
        assert!(
            matches!(refused.error, Error::NotAdjacent { .. }),
            "{}",
            refused.error
        );
        let (a, c) = refused.value;
        let (b, a) = b.try_join(a).unwrap_err().value;
        let (a, other) = a.try_join(compute.alloc_zeroed(LEN).unwrap()).unwrap_err().value;
        assert_eq!(other.len(), LEN);
        assert_eq!(a.join(b).unwrap().join(c).unwrap().len(), LEN);
        // Two allocations never become one, even where they touch by chance.
        let many: Vec<_> = (0..8).map(|_| compute.alloc_zeroed::<u32>(64).unwrap()).collect();
        many.into_iter()
            .reduce(|a, b| a.try_join(b).unwrap_err().value.1)
            .unwrap();
    });
}

#[test]
fn empty_parts_are_parts() {
    adversarial(0, |gpu, _| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut whole = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let end = whole.split_off(LEN);
        let rest = whole.split_off(0);
        assert_eq!((whole.len(), rest.len(), end.len()), (0, LEN, 0));
        let rest = whole.join(rest).unwrap();
        drop(end);
        assert_eq!(read(gpu, &compute, &rest), [0; LEN]);
        let mut nothing = compute.alloc_zeroed::<u32>(0).unwrap();
        let also = nothing.split_off(0);
        assert!(nothing.join(also).unwrap().is_empty());
        assert!(rest.try_join(compute.alloc_zeroed(0).unwrap()).is_err());
    });
}

/// Idle parts, and parts with uninitialised elements, split and join like other parts.
#[test]
fn idle_and_unwritten_parts_are_parts() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut first = compute.alloc_uninit::<u32>(LEN).unwrap();
        let second = first.split_off(LEN / 2);
        let first = compute.init_filled(first, 1).unwrap();
        let second = compute.init_filled(second, 2).unwrap();
        let mut idle = compute
            .release(first.join(second).unwrap())
            .unwrap()
            .synchronize()
            .unwrap();
        let tail = idle.split_off(LEN - 1);
        let head = download.adopt(idle).unwrap();
        let head = download.release(head).unwrap().synchronize().unwrap();
        let whole = compute.adopt(head.join(tail).unwrap()).unwrap();
        let expected = [[1; LEN / 2], [2; LEN / 2]].concat();
        assert_eq!(read(gpu, &compute, &whole), expected);
    });
}

#[test]
fn threads_use_parts_of_one_block() {
    adversarial(0, |gpu, _| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut rest = compute.alloc_zeroed::<u32>(8 * 16).unwrap();
        let mut parts = Vec::new();
        for index in (0..8).rev() {
            parts.push((index, rest.split_off(index as usize * 16)));
        }
        drop(rest);
        std::thread::scope(|scope| {
            for (index, mut part) in parts {
                let (compute, download) = (&compute, &download);
                scope.spawn(move || {
                    compute.fill(&mut part, index).unwrap();
                    let part = download.acquire(compute.release(part).unwrap()).unwrap();
                    assert_eq!(read(gpu, download, &part), [index; 16]);
                });
            }
        });
    });
}

/// Each record or wait fails in turn while parts are dropped. Memory may be leaked, but is never
/// given out while it is used.
#[test]
fn parts_dropped_while_calls_fail_are_never_freed_early() {
    for seed in 0..12 {
        for call in [Call::RecordEvent, Call::WaitEvent, Call::CreateEvent, Call::Free] {
            for nth in 1..4 {
                let config = SimConfig::new().seed(seed).order(Order::Lazy);
                Device::simulated(config, |gpu| {
                    let simulator = gpu.simulator().unwrap();
                    let (compute, download) = (
                        gpu.stream::<Compute<_>>().unwrap(),
                        gpu.stream::<Download<_>>().unwrap(),
                    );
                    let mut a = compute.alloc_zeroed::<u32>(LEN).unwrap();
                    compute.fill(&mut a, 6).unwrap();
                    let b = a.split_off(LEN / 2);
                    let b = download.acquire(compute.release(b).unwrap()).unwrap();
                    let mut host_a = compute.adopt(gpu.pinned::<u32>(LEN / 2).unwrap()).unwrap();
                    let mut host_b = download.adopt(gpu.pinned::<u32>(LEN / 2).unwrap()).unwrap();
                    compute.copy_to_host(&a, &mut host_a).unwrap();
                    download.copy_to_host(&b, &mut host_b).unwrap();
                    simulator.fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
                    drop(a);
                    drop(b);
                    simulator.clear_faults();
                    for _ in 0..4 {
                        let mut other = compute.alloc_zeroed::<u32>(LEN).unwrap();
                        compute.fill(&mut other, 1).unwrap();
                        compute.synchronize().unwrap();
                    }
                    assert_eq!(
                        *compute.release(host_a).unwrap().synchronize().unwrap(),
                        [6; LEN / 2]
                    );
                    assert_eq!(
                        *download.release(host_b).unwrap().synchronize().unwrap(),
                        [6; LEN / 2]
                    );
                })
                .unwrap();
            }
        }
    }
}

/// A capture works on halves of temporary memory on two streams, and drops the halves there.
fn split_inside_a_capture(gpu: &Device<Scoped<'_>>) {
    let compute = gpu.stream::<Compute<_>>().unwrap();
    let out = compute.alloc_zeroed::<u32>(LEN).unwrap();
    let mut graph = compute
        .capture(out, |stream, mut out| {
            let side = stream.fork::<Upload<_>>()?;
            let mut a = stream.alloc_zeroed::<u32>(LEN)?;
            let b = a.split_off(LEN / 2);
            let mut b = side.acquire(stream.release(b)?)?;
            stream.fill(&mut a, 4)?;
            side.fill(&mut b, 5)?;
            stream.copy(&a, &mut out[..LEN / 2])?;
            let b = stream.acquire(side.release(b)?)?;
            stream.copy(&b, &mut out[LEN / 2..])?;
            drop(a);
            drop(side.acquire(stream.release(b)?)?);
            Ok(())
        })
        .unwrap();
    for _ in 0..3 {
        graph.launch(&compute).unwrap();
    }
    let out = graph.into_inner();
    let expected = [[4; LEN / 2], [5; LEN / 2]].concat();
    assert_eq!(read(gpu, &compute, &out), expected);
}

#[test]
fn a_split_inside_a_capture_is_freed_at_each_launch() {
    for_each_device(split_inside_a_capture);
    adversarial(0, |gpu, _| split_inside_a_capture(gpu));
}

/// A pinned block is reused only when the last uses of all its parts are over.
#[test]
fn pinned_halves_are_reused_when_both_are_done() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let source: Vec<u32> = (0..LEN as u32).collect();
        let mut first = gpu.pinned_from(&source).unwrap();
        let second = first.split_off(LEN / 2);
        assert_eq!((first[1], second[1]), (1, LEN as u32 / 2 + 1));
        let mut here = compute.alloc_zeroed::<u32>(LEN / 2).unwrap();
        let mut there = download.alloc_zeroed::<u32>(LEN / 2).unwrap();
        let (first, second) = (compute.adopt(first).unwrap(), download.adopt(second).unwrap());
        compute.copy_to_device(&first, &mut here).unwrap();
        download.copy_to_device(&second, &mut there).unwrap();
        drop(first);
        drop(download.release(second).unwrap());
        // If the block were handed out while a copy reads it, the copy would bring these values.
        let fresh: Vec<PinnedBuffer<u32, _>> = (0..4).map(|_| gpu.pinned_from(&[99; LEN]).unwrap()).collect();
        assert_eq!(read(gpu, &compute, &here), source[..LEN / 2]);
        assert_eq!(read(gpu, &download, &there), source[LEN / 2..]);
        drop(fresh);
        compute.synchronize().unwrap();
        download.synchronize().unwrap();
        let mapped = gpu.pinned_stats().blocks_mapped;
        let mut again: Vec<_> = (0..mapped).map(|_| gpu.pinned::<u32>(LEN).unwrap()).collect();
        assert_eq!(gpu.pinned_stats().blocks_mapped, mapped, "every block came back");
        let mut left = again.pop().unwrap();
        let right = left.split_off(3);
        let (right, left) = right.try_join(left).unwrap_err().value;
        assert_eq!(left.join(right).unwrap().len(), LEN);
    });
}
