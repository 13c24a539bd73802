//! The host reads and writes a graph's pinned memory between launches.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Graph, Idle, Live, PinnedBuffer, Shared, Stream};

use super::{Compute, LEN};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Other;
}

type Host<D> = PinnedBuffer<u32, Idle<D>>;
type Round<D> = (Host<D>, DeviceBuffer<u32, Idle<D>>, Host<D>);

/// Uploads from one pinned part, and downloads to the other.
fn round_trip<D: Live>(gpu: &Device<D>, compute: &Stream<Compute<D>>) -> Graph<Round<D>, Compute<D>> {
    let pinned = || compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
    let bundle = (pinned(), compute.alloc_zeroed::<u32>(LEN).unwrap(), pinned());
    compute
        .capture(bundle, |stream, (input, mut data, mut output)| {
            stream.copy_to_device(&input, &mut data)?;
            stream.copy_to_host(&data, &mut output)
        })
        .unwrap()
}

#[test]
fn a_source_is_rewritten_and_a_result_read_between_launches() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut graph = round_trip(gpu, &compute);
        for value in 1..6 {
            let before = graph
                .host(|(mut input, data, output)| {
                    input.as_mut_slice().fill(value);
                    assert_eq!(data.len(), LEN);
                    output.as_slice()[LEN - 1]
                })
                .unwrap();
            assert_eq!(before, value - 1);
            graph.launch(&compute).unwrap();
            // A launch that is not waited for reads the same source.
            graph.launch(&compute).unwrap();
        }
        // Parts of a view, and an empty part.
        let last = graph
            .host(|(_, _, mut output)| {
                let (left, right) = output.split_at_mut(LEN / 2);
                left.as_mut_slice()[0] = 77;
                assert!(right[..0].as_slice().is_empty());
                (left.as_slice().to_vec(), right[1..3].as_slice().to_vec())
            })
            .unwrap();
        assert_eq!((last.0[0], last.0[1], &*last.1), (77, 5, &[5, 5][..]));
        let (_, _, output) = graph.into_inner();
        let output = compute.release(output).unwrap().synchronize().unwrap();
        assert_eq!(output[..2], [77, 5]);
    });
}

/// In a view for the host, the methods of slices do what those of `[T]` do.
#[test]
fn a_view_for_the_host_has_the_methods_of_slices() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut graph = round_trip(gpu, &compute);
        let sorted = graph.host(|(mut input, _, _)| {
            input.fill(9);
            input
                .iter_mut()
                .zip(0..4)
                .for_each(|(value, at)| *value = 10 - at);
            assert_eq!(
                (input.first(), input.get(1), input.last()),
                (Some(&10), Some(&9), Some(&9))
            );
            assert!(input.starts_with(&[10, 9, 8, 7, 9]) && input.ends_with(&[9]));
            assert!(input.contains(&7) && !input.contains(&6));
            assert_eq!(input.chunks(4).next(), Some(&[10, 9, 8, 7][..]));
            assert_eq!(input[1..].windows(2).next(), Some(&[9, 8][..]));
            input[..2].copy_from_slice(&[1, 2]);
            input[..4].swap(0, 3);
            assert_eq!(input[..4].to_vec(), [7, 2, 8, 1]);
            input[..4].reverse();
            input[..4].rotate_left(1);
            assert_eq!(input[..4].to_vec(), [8, 2, 7, 1]);
            input[..4].copy_within(2.., 0);
            assert_eq!(input[..4].iter().copied().collect::<Vec<_>>(), [7, 1, 7, 1]);
            input[..4].sort_unstable();
            input[..4].is_sorted()
        });
        assert!(sorted.unwrap());
        graph.launch(&compute).unwrap();
        let first = graph.host(|(_, _, output)| output[..4].to_vec()).unwrap();
        assert_eq!(first, [1, 1, 7, 7]);
    });
}

/// The wait fails: the host gets nothing, and the graph goes on.
#[test]
fn a_wait_that_fails_gives_the_host_nothing() {
    for call in [Call::RecordEvent, Call::SynchronizeEvent] {
        Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut graph = round_trip(&gpu, &compute);
            graph
                .host(|(mut input, ..)| input.as_mut_slice().fill(3))
                .unwrap();
            graph.launch(&compute).unwrap();
            gpu.simulator().unwrap().fail_next(call, ErrorCode::OUT_OF_MEMORY);
            let error = graph.host(|_| unreachable!("nothing is lent")).unwrap_err();
            assert!(error.to_string().contains("Graph::host"), "{error}");
            graph
                .host(|(.., output)| assert_eq!(output.as_slice(), [3; LEN]))
                .unwrap();
        })
        .unwrap();
    }
}

#[test]
fn a_graph_goes_on_after_a_closure_that_panics() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut graph = round_trip(gpu, &compute);
        graph.launch(&compute).unwrap();
        let left = catch_unwind(AssertUnwindSafe(|| {
            graph.host(|(mut input, ..)| {
                input.as_mut_slice().fill(8);
                panic_any("in the closure")
            })
        }));
        assert!(left.is_err());
        graph.launch(&compute).unwrap();
        graph
            .host(|(.., output)| assert_eq!(output.as_slice(), [8; LEN]))
            .unwrap();
    });
}

/// A lease in a graph is read by the host, by the graph and by another stream.
#[test]
fn the_host_reads_a_lease_in_a_graph() {
    for_each_device(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let shared = Shared::new(gpu.pinned_from(&[6_u32; LEN]).unwrap());
        let bundle = (
            compute.lease(&shared).unwrap(),
            compute.alloc_zeroed::<u32>(LEN).unwrap(),
        );
        let mut graph = compute
            .capture(bundle, |stream, (source, mut data)| {
                stream.copy_to_device(&source, &mut data)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let lease = other.lease(&shared).unwrap();
        let copy = other
            .init_from_host(other.alloc_uninit(LEN).unwrap(), &lease.view())
            .unwrap();
        graph
            .host(|(source, _)| assert_eq!(source.as_slice(), [6; LEN]))
            .unwrap();
        drop((graph, lease));
        let mut back = shared.reclaim().unwrap().synchronize().unwrap();
        back.fill(0);
        let mut seen = [0; LEN];
        other.copy_to_slice(&copy, &mut seen).unwrap();
        assert_eq!(seen, [6; LEN]);
    });
}
