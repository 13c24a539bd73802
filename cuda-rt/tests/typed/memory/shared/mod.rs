//! Shared bundles and their leases: leases move between streams, into slots and graphs, and the
//! writer still waits for every reader.
#![forbid(unsafe_code)]

mod attacks;
mod host;
mod one_stream;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Bundle, Device, DeviceBuffer, Idle, Lease, Place, Slot};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Upload;
    Download;
    Writer;
    Left;
    Right;
}

#[test]
fn two_readers_and_the_writer_waits_for_both() {
    for_each_device(|gpu| {
        let (upload, compute, download) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut data = upload.alloc_zeroed::<u32>(500).unwrap();
        upload.fill(&mut data, 3).unwrap();
        let shared = upload.share(data).unwrap();
        let mut host = (
            compute.adopt(gpu.pinned::<u32>(500).unwrap()).unwrap(),
            download.adopt(gpu.pinned::<u32>(500).unwrap()).unwrap(),
        );
        {
            let (one, two) = (compute.lease(&shared).unwrap(), download.lease(&shared).unwrap());
            compute.copy_to_host(&one.view(), &mut host.0).unwrap();
            download.copy_to_host(&two.view(), &mut host.1).unwrap();
        }
        let mut data = upload.acquire(shared.reclaim().unwrap()).unwrap();
        upload.fill(&mut data, 9).unwrap();
        upload.synchronize().unwrap();
        assert_eq!(*compute.release(host.0).unwrap().synchronize().unwrap(), [3; 500]);
        assert_eq!(
            *download.release(host.1).unwrap().synchronize().unwrap(),
            [3; 500]
        );
    });
}

#[test]
fn h09_a_lease_that_is_out_blocks_reclaiming_and_a_leaked_one_for_ever() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let shared = compute.share(compute.alloc_zeroed::<u8>(8).unwrap()).unwrap();
        let lease = compute.lease(&shared).unwrap();
        let shared = shared.reclaim().unwrap_err();
        drop(lease);
        let buffer = compute.acquire(shared.reclaim().unwrap()).unwrap();
        let shared = compute.share(buffer).unwrap();
        std::mem::forget(compute.lease(&shared).unwrap());
        assert!(shared.reclaim().is_err());
    });
}

/// A lease moves with a buffer computed from it. The writer comes back early, and waits for the
/// reads on both streams.
#[test]
fn h10_a_lease_that_moved_is_waited_for() {
    for_each_device(|gpu| {
        let (writer, left, right) = (
            gpu.stream::<Writer<_>>().unwrap(),
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let shared = writer.share(filled(&writer, 3)).unwrap();
        let lease = left.lease(&shared).unwrap();
        let first = left
            .init_from(left.alloc_uninit(LEN).unwrap(), &lease.view())
            .unwrap();
        let (first, lease) = right.acquire(left.release((first, lease)).unwrap()).unwrap();
        let second = right
            .init_from(right.alloc_uninit(LEN).unwrap(), &lease.view())
            .unwrap();
        let shared = shared.reclaim().unwrap_err();
        drop(lease);
        let mut data = writer.acquire(shared.reclaim().unwrap()).unwrap();
        writer.fill(&mut data, 9).unwrap();
        writer.synchronize().unwrap();
        assert_eq!(read(gpu, &right, &first), [3; LEN]);
        assert_eq!(read(gpu, &right, &second), [3; LEN]);
    });
}

/// The bundle that holds the lease is dropped while its handoff is pending.
#[test]
fn a_lease_dropped_in_transit_is_waited_for() {
    for seed in 0..24 {
        for order in [Order::Random, Order::Lazy] {
            let simulator = Device::simulated(SimConfig::new().seed(seed).order(order), |gpu| {
                let (writer, left) = (
                    gpu.stream::<Writer<_>>().unwrap(),
                    gpu.stream::<Left<_>>().unwrap(),
                );
                let shared = writer.share(filled(&writer, 3)).unwrap();
                let mut copies = Vec::new();
                for _ in 0..3 {
                    let lease = left.lease(&shared).unwrap();
                    copies.push(
                        left.init_from(left.alloc_uninit(LEN).unwrap(), &lease.view())
                            .unwrap(),
                    );
                    drop(left.release(vec![lease]).unwrap());
                }
                let mut data = writer.acquire(shared.reclaim().unwrap()).unwrap();
                writer.fill(&mut data, 9).unwrap();
                writer.synchronize().unwrap();
                for copy in &copies {
                    assert_eq!(read(&gpu, &left, copy), [3; LEN]);
                }
                gpu.simulator().unwrap().clone()
            })
            .unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    }
}

#[derive(cuda_rt::Bundle)]
struct Layer<W: Bundle, P: Place = Idle> {
    weights: Lease<W, P>,
    activations: DeviceBuffer<u32, P>,
}

/// In a struct, in a slot, and idle for a while: a lease on the host's side has no pending reads
/// and ends without an event.
#[test]
fn a_struct_holds_a_lease() {
    for_each_device(|gpu| {
        let (writer, left, right) = (
            gpu.stream::<Writer<_>>().unwrap(),
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let weights = writer.share(filled(&writer, 7)).unwrap();
        let layer = Layer {
            weights: left.lease(&weights).unwrap(),
            activations: filled(&left, 0),
        };
        let mut slot = Slot::from(left.release(layer).unwrap());
        slot.on(&right, |layer| {
            right.copy(&layer.weights.view(), &mut layer.activations).unwrap();
            assert_eq!(read(gpu, &right, &layer.activations), [7; LEN]);
        })
        .unwrap();
        let layer = slot.into_handoff().unwrap().synchronize().unwrap();
        let layer = left.adopt(layer).unwrap();
        left.copy(&layer.weights.view(), &mut { layer.activations })
            .unwrap();
        let weights = weights.reclaim().unwrap_err();
        drop(layer.weights);
        let weights = writer.acquire(weights.reclaim().unwrap()).unwrap();
        assert_eq!(read(gpu, &writer, &weights), [7; LEN]);
    });
}

/// A graph holds a lease and reads the weights at each launch. Everyone can still read them, and
/// they come back after the graph.
#[test]
fn a_graph_holds_a_lease() {
    for_each_device(|gpu| {
        let (writer, left, right) = (
            gpu.stream::<Writer<_>>().unwrap(),
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let weights = writer.share(filled(&writer, 4)).unwrap();
        let bundle = (left.lease(&weights).unwrap(), filled(&left, 0));
        let mut graph = left
            .capture(bundle, |stream, (weights, mut out)| {
                stream.copy(&weights, &mut out)
            })
            .unwrap();
        graph.launch(&left).unwrap();
        let lease = right.lease(&weights).unwrap();
        let copy = right
            .init_from(right.alloc_uninit(LEN).unwrap(), &lease.view())
            .unwrap();
        drop(lease);
        let (_, mut out) = graph.views();
        left.fill(&mut out, 0).unwrap();
        graph.launch(&left).unwrap();
        let (lease, out) = graph.into_inner();
        let weights = weights.reclaim().unwrap_err();
        drop(lease);
        let mut back = writer.acquire(weights.reclaim().unwrap()).unwrap();
        writer.fill(&mut back, 9).unwrap();
        writer.synchronize().unwrap();
        assert_eq!(read(gpu, &left, &out), [4; LEN]);
        assert_eq!(read(gpu, &right, &copy), [4; LEN]);
    });
}

/// The end of a later lease covers the ends of earlier leases on its stream.
#[test]
fn leases_that_end_on_one_stream_cost_the_writer_one_wait() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
        let waits = || gpu.simulator().unwrap().counters().calls(Call::WaitEvent);
        let (writer, left, right) = (
            gpu.stream::<Writer<_>>().unwrap(),
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let shared = writer.share(filled(&writer, 3)).unwrap();
        let mut copies = Vec::new();
        for _ in 0..10 {
            let (lease, _other) = (left.lease(&shared).unwrap(), right.lease(&shared).unwrap());
            let copy = left.init_from(left.alloc_uninit(LEN).unwrap(), &lease.view());
            copies.push(copy.unwrap());
        }
        let before = waits();
        let mut buffer = writer.acquire(shared.reclaim().unwrap()).unwrap();
        assert_eq!(waits() - before, 2, "one for each stream that read");
        writer.fill(&mut buffer, 9).unwrap();
        for copy in &copies {
            assert_eq!(read(&gpu, &left, copy), [3; LEN]);
        }
    })
    .unwrap();
}

/// A lease in a dropped handoff whose events fail later: the bundle is leaked, and not written
/// under a reader.
#[test]
fn a_lease_whose_end_is_lost_keeps_the_bundle() {
    for seed in 0..12 {
        Device::simulated(SimConfig::new().seed(seed).order(Order::Lazy), |gpu| {
            let simulator = gpu.simulator().unwrap();
            let (writer, left) = (
                gpu.stream::<Writer<_>>().unwrap(),
                gpu.stream::<Left<_>>().unwrap(),
            );
            let shared = writer.share(filled(&writer, 3)).unwrap();
            let lease = left.lease(&shared).unwrap();
            let copy = left
                .init_from(left.alloc_uninit(LEN).unwrap(), &lease.view())
                .unwrap();
            simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
            drop(lease);
            let handoff = shared.reclaim().unwrap();
            let refused = writer.try_acquire(handoff).unwrap_err();
            assert_eq!(refused.error.driver().unwrap().code(), ErrorCode::OUT_OF_MEMORY);
            drop(refused);
            let _others = [(); 4].map(|()| filled(&writer, 9));
            writer.synchronize().unwrap();
            assert_eq!(read(&gpu, &left, &copy), [3; LEN]);
        })
        .unwrap();
    }
}
