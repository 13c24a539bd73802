//! Constants: every stream reads them for ever, without synchronisation.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Bundle, Constant, Device, DeviceBuffer, Idle, Live, Place};

use crate::buffers::{LEN, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Left;
    Right;
}

fn constant<D: Live>(gpu: &Device<D>, value: u32) -> Constant<DeviceBuffer<u32, Idle<D>>, Idle<D>> {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let buffer = compute
        .init_filled(compute.alloc_uninit(LEN).unwrap(), value)
        .unwrap();
    Constant::new(compute.release(buffer).unwrap().synchronize().unwrap())
}

#[test]
fn every_stream_and_thread_reads_a_constant() {
    for_each_device(|gpu| {
        let weights = constant(gpu, 5);
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        std::thread::scope(|scope| {
            let weights = &weights;
            scope.spawn(|| {
                let weights = left.adopt(weights.clone()).unwrap();
                assert_eq!(read(gpu, &left, &weights.view()), [5; LEN]);
            });
            scope.spawn(|| {
                let weights = right.adopt(weights.clone()).unwrap();
                assert_eq!(read(gpu, &right, &weights.view()), [5; LEN]);
            });
        });
    });
}

/// No event, no wait and no free, though every handle is dropped while a read is pending.
#[test]
fn a_read_of_a_constant_makes_no_call_and_a_drop_no_free() {
    for seed in 0..24 {
        let simulator = Device::simulated(SimConfig::new().seed(seed).order(Order::Lazy), |gpu| {
            let simulator = gpu.simulator().unwrap();
            let left = gpu.stream::<Left<_>>().unwrap();
            let weights = constant(&gpu, 6);
            let mut host = left.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            let calls = || {
                let counters = simulator.counters();
                let [records, waits] = [Call::RecordEvent, Call::WaitEvent].map(|call| counters.calls(call));
                [records, waits, counters.frees()]
            };
            let before = calls();
            for _ in 0..10 {
                let weights = left.adopt(weights.clone()).unwrap();
                left.copy_to_host(&weights.view(), &mut host).unwrap();
            }
            drop(weights);
            assert_eq!(calls(), before);
            let other = left.alloc_zeroed::<u32>(LEN).unwrap();
            assert_eq!(*left.release(host).unwrap().synchronize().unwrap(), [6; LEN]);
            drop(other);
            simulator.clone()
        })
        .unwrap();
        // The weights keep their device, and with it the block of the other buffer.
        let left = simulator.counters();
        assert_eq!(
            (left.allocations_live, left.blocks_free),
            (2, 1),
            "the weights stay"
        );
    }
}

#[derive(cuda_rt::Bundle)]
struct Layer<W: Bundle, P: Place = Idle> {
    weights: Constant<W, P>,
    activations: DeviceBuffer<u32, P>,
}

/// In a struct that moves, and in a graph.
#[test]
fn a_constant_is_a_part_of_bundles_and_graphs() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let weights = constant(gpu, 7);
        let mut layer = Layer {
            weights: left.adopt(weights.clone()).unwrap(),
            activations: left.alloc_zeroed::<u32>(LEN).unwrap(),
        };
        left.copy(&layer.weights.view(), &mut layer.activations).unwrap();
        let layer = right.acquire(left.release(layer).unwrap()).unwrap();
        assert_eq!(read(gpu, &right, &layer.activations), [7; LEN]);
        assert_eq!(read(gpu, &right, &layer.weights.view()), [7; LEN]);

        let bundle = (
            left.adopt(weights).unwrap(),
            left.alloc_zeroed::<u32>(LEN).unwrap(),
        );
        let mut graph = left
            .capture(bundle, |stream, (weights, mut out)| {
                stream.copy(&weights, &mut out)
            })
            .unwrap();
        for _ in 0..3 {
            graph.launch(&left).unwrap();
        }
        let (_, out) = graph.into_inner();
        assert_eq!(read(gpu, &left, &out), [7; LEN]);
    });
}
