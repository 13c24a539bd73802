//! Copies of rows, compared with a model, and layouts that must be refused.

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{CopySide, Device, Element, Error, Layout2, Layout3, LayoutError, Live};

use super::Compute;
use crate::devices::for_each_device;

/// Random numbers below a bound, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn layout(&mut self, [width, height, depth]: [usize; 3]) -> Layout3 {
        Layout3::packed(width, height, depth)
            .with_stride(width + self.below(4))
            .with_plane_rows(height + self.below(3))
            .at(self.below(9))
    }
}

/// The elements of a layout, in order.
fn places(layout: Layout3) -> Vec<usize> {
    let mut places = Vec::new();
    for plane in 0..layout.depth {
        for row in 0..layout.height {
            let start = layout.offset + (plane * layout.plane_rows + row) * layout.stride;
            places.extend(start..start + layout.width);
        }
    }
    places
}

/// What a copy leaves in `to`.
fn model<T: Copy>(to: &[T], to_layout: Layout3, from: &[T], from_layout: Layout3) -> Vec<T> {
    let mut result = to.to_vec();
    for (to, from_place) in places(to_layout).into_iter().zip(places(from_layout)) {
        result[to] = from[from_place];
    }
    result
}

fn each_way<D: Live, T: Element + PartialEq + std::fmt::Debug>(
    gpu: &Device<D>,
    element: impl Fn(usize) -> T,
) {
    const LEN: usize = 700;
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let mut random = Random(7);
    let values: Vec<T> = (0..LEN).map(&element).collect();
    let old: Vec<T> = (0..LEN).map(|at| element(at + 1000)).collect();
    for _ in 0..12 {
        let size = [7, 5, 4].map(|most| random.below(most));
        let (from, to) = (random.layout(size), random.layout(size));
        let expected = model(&old, to, &values, from);
        let source = compute.alloc_from_slice(&values).unwrap();
        let mut device = compute.alloc_from_slice(&old).unwrap();
        compute.copy_rows(&source, from, &mut device, to).unwrap();
        assert_eq!(compute.copy_to_vec(&device).unwrap(), expected, "{from:?} {to:?}");

        let pinned = compute.adopt(gpu.pinned_from(&values).unwrap()).unwrap();
        let mut device = compute.alloc_from_slice(&old).unwrap();
        compute
            .copy_rows_to_device(&pinned, from, &mut device, to)
            .unwrap();
        assert_eq!(compute.copy_to_vec(&device).unwrap(), expected, "{from:?} {to:?}");

        let mut host = compute.adopt(gpu.pinned_from(&old).unwrap()).unwrap();
        compute.copy_rows_to_host(&source, from, &mut host, to).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!(host[..], expected[..], "{from:?} {to:?}");

        let len = size.iter().product();
        let packed: Vec<T> = places(from).into_iter().map(|at| values[at]).collect();
        let made = compute
            .init_from_rows(compute.alloc_uninit(len).unwrap(), &source, from)
            .unwrap();
        assert_eq!(compute.copy_to_vec(&made).unwrap(), packed);
        let made = compute
            .init_from_host_rows(compute.alloc_uninit(len).unwrap(), &pinned, from)
            .unwrap();
        assert_eq!(compute.copy_to_vec(&made).unwrap(), packed);
        let made = compute.adopt(gpu.pinned_uninit(len).unwrap()).unwrap();
        let made = compute.init_host_from_rows(made, &source, from).unwrap();
        assert_eq!(
            compute.release(made).unwrap().synchronize().unwrap()[..],
            packed[..]
        );
    }
}

#[test]
fn rows_arrive_and_what_lies_between_them_stays() {
    for_each_device(|gpu| {
        each_way(gpu, |at| (at * 31 % 251) as u8);
        each_way(gpu, |at| [at as f32, -1.0, 0.5]);
    });
}

/// An NV12 frame with a stride, to two packed planes; the chroma has elements of two bytes.
#[test]
fn the_planes_of_nv12_become_packed() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (width, height, stride) = (6, 4, 8);
        let bytes: Vec<u8> = (0..(stride * height * 3 / 2) as u8).collect();
        let frame = compute.alloc_from_slice(&bytes).unwrap();
        let luma = Layout2::packed(width, height).with_stride(stride);
        let chroma = Layout2::packed(width, height / 2)
            .with_stride(stride)
            .at(stride * height);
        let rows = |from: Layout2| {
            let len = from.width * from.height;
            compute
                .init_from_rows(compute.alloc_uninit::<u8>(len).unwrap(), &frame, from)
                .unwrap()
        };
        let expected = |first: u8, height: u8| -> Vec<u8> {
            (0..height)
                .flat_map(|row| (0..6).map(move |column| first + 8 * row + column))
                .collect()
        };
        assert_eq!(compute.copy_to_vec(&rows(luma)).unwrap(), expected(0, 4));
        assert_eq!(compute.copy_to_vec(&rows(chroma)).unwrap(), expected(32, 2));
        let region = luma.region(2, 1, 3, 2);
        assert_eq!(
            compute.copy_to_vec(&rows(region)).unwrap(),
            [10, 11, 12, 18, 19, 20]
        );
        assert_eq!(region.region(1, 1, 2, 1).offset, 19);
    });
}

#[test]
fn regions_outside_their_layout_panic() {
    let layout = Layout2::packed(4, 3).with_stride(6);
    for (x, y, width, height) in [
        (0, 0, 5, 1),
        (4, 0, 1, 1),
        (0, 2, 1, 2),
        (5, 0, 0, 0),
        (1, 0, usize::MAX, 1),
    ] {
        std::panic::catch_unwind(|| layout.region(x, y, width, height)).unwrap_err();
    }
    let past = Layout2::packed(1, 3).with_stride(usize::MAX / 2).at(9);
    std::panic::catch_unwind(|| past.region(0, 2, 1, 1)).unwrap_err();
    assert_eq!(layout.region(4, 3, 0, 0).offset, 22);
}

/// Each number that is wrong is named, whatever the others are, and nothing is enqueued.
#[test]
fn layouts_are_checked_before_anything_is_enqueued() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let source = compute.alloc_zeroed::<u32>(20).unwrap();
        let mut target = compute.alloc_zeroed::<u32>(16).unwrap();
        let mut why = |from: Layout3, to: Layout3| match compute.copy_rows(&source, from, &mut target, to) {
            Err(Error::Layout {
                during: "Stream::copy_rows",
                why,
            }) => Some(why),
            Ok(()) => None,
            Err(other) => panic!("{other}"),
        };
        let before = gpu.simulator().unwrap().counters().calls(Call::CopyRows);
        let plane = Layout3::from(Layout2::packed(4, 2));
        let (read, write) = (CopySide::Source, CopySide::Destination);
        let past = |side, end, len| Some(LayoutError::PastEnd { side, end, len });
        assert_eq!(
            why(plane, Layout2::packed(2, 4).into()),
            Some(LayoutError::Size {
                source: [4, 2, 1],
                destination: [2, 4, 1]
            })
        );
        for (side, from, to) in [
            (read, plane.with_stride(3), plane),
            (write, plane, plane.with_stride(3)),
        ] {
            let (stride, width) = (3, 4);
            assert_eq!(why(from, to), Some(LayoutError::Stride { side, stride, width }));
        }
        let planes = Layout3::packed(2, 3, 2);
        for (side, from, to) in [
            (read, planes.with_plane_rows(2), planes),
            (write, planes, planes.with_plane_rows(2)),
        ] {
            let (plane_rows, height) = (2, 3);
            assert_eq!(
                why(from, to),
                Some(LayoutError::PlaneRows {
                    side,
                    plane_rows,
                    height
                })
            );
        }
        assert_eq!(why(plane.at(13), plane), past(read, 21, 20));
        assert_eq!(why(plane, plane.at(9)), past(write, 17, 16));
        assert_eq!(why(plane.with_stride(17), plane), past(read, 21, 20));
        assert_eq!(why(planes.with_plane_rows(8), planes), past(read, 22, 20));
        for huge in [
            plane.at(usize::MAX),
            plane.with_stride(usize::MAX),
            planes.with_plane_rows(usize::MAX),
            Layout3::packed(2, usize::MAX, 2),
            Layout3::packed(usize::MAX, 2, 2),
            Layout3::packed(1, 1, usize::MAX).with_plane_rows(usize::MAX),
        ] {
            assert_eq!(
                why(huge, huge),
                Some(LayoutError::Overflow { side: read }),
                "{huge:?}"
            );
        }
        // A size of 0 touches nothing, wherever it lies.
        for nothing in [
            Layout3::packed(0, usize::MAX, usize::MAX),
            Layout3::packed(3, 0, 2).at(99),
            Layout3::packed(3, 2, 0).with_stride(usize::MAX),
        ] {
            assert_eq!(why(nothing, nothing), None);
        }
        let calls = gpu.simulator().unwrap().counters().calls(Call::CopyRows);
        assert_eq!(calls, before);
        // The last elements of both sides, with distances that do not matter.
        let row = Layout3::packed(4, 1, 1);
        let far = row.with_stride(usize::MAX).with_plane_rows(usize::MAX);
        assert_eq!(why(far.at(16), far.at(12)), None);
        assert_eq!(why(plane.with_stride(16), plane.at(8)), None);
        let calls = gpu.simulator().unwrap().counters().calls(Call::CopyRows);
        assert_eq!(calls, before + 2);
    })
    .unwrap();
}

/// Memory becomes readable only if each element is written.
#[test]
fn attack_rows_that_leave_elements_of_new_memory_unwritten() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let source = compute.alloc_zeroed::<u32>(64).unwrap();
        let pinned = compute.adopt(gpu.pinned_from(&[0u32; 64]).unwrap()).unwrap();
        for (len, layout) in [
            (9, Layout3::packed(2, 2, 2)),
            (7, Layout3::packed(2, 2, 2)),
            (1, Layout3::packed(0, 1, 1)),
            (0, Layout3::packed(1, 1, 1)),
            (4, Layout3::packed(usize::MAX / 2 + 1, 2, 4)),
        ] {
            let new = || compute.alloc_uninit::<u32>(len).unwrap();
            let refused = [
                compute.init_from_rows(new(), &source, layout).map(drop),
                compute.init_from_host_rows(new(), &pinned, layout).map(drop),
                compute
                    .init_host_from_rows(
                        compute.adopt(gpu.pinned_uninit(len).unwrap()).unwrap(),
                        &source,
                        layout,
                    )
                    .map(drop),
            ];
            for result in refused {
                assert!(matches!(
                    result,
                    Err(Error::LengthMismatch { destination_len, .. }) if destination_len == len
                ));
            }
        }
    })
    .unwrap();
}

/// A graph replays its rows. A change of them is refused, as CUDA refuses it, and the graph stays
/// as it was.
#[test]
fn graphs_replay_rows_and_refuse_to_change_them() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (
            compute.alloc_from_slice(&[1u32, 2, 3, 4, 5, 6]).unwrap(),
            compute.alloc_zeroed::<u32>(6).unwrap(),
        );
        let rows = Layout2::packed(2, 2).with_stride(3);
        let mut graph = compute
            .capture(bundle, |stream, (from, mut to)| {
                stream.fill(&mut to, 9)?;
                stream.copy_rows(&from, rows, &mut to, rows)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(compute.copy_to_vec(&graph.views().1).unwrap(), [1, 2, 9, 4, 5, 9]);
        let refused = graph.update(|stream, (from, mut to)| {
            stream.fill(&mut to, 9)?;
            stream.copy_rows(&from, rows.at(1), &mut to, rows)
        });
        match refused {
            Err(Error::NotAnUpdate {
                operation: 2, why, ..
            }) => assert!(why.contains("2 rows of 8 bytes"), "{why}"),
            other => panic!("{other:?}"),
        }
        let spare = (
            compute.alloc_zeroed::<u32>(6).unwrap(),
            compute.alloc_zeroed::<u32>(6).unwrap(),
        );
        let refused = graph.replace(spare, |stream, (from, mut to)| {
            stream.fill(&mut to, 9)?;
            stream.copy_rows(&from, rows, &mut to, rows)
        });
        assert!(matches!(refused.unwrap_err().error, Error::NotAnUpdate { .. }));
        graph.launch(&compute).unwrap();
        assert_eq!(compute.copy_to_vec(&graph.views().1).unwrap(), [1, 2, 9, 4, 5, 9]);
        // Another call may change beside the rows. Some versions of CUDA refuse even that, and then
        // the graph keeps its contents.
        let updated = graph.update(|stream, (from, mut to)| {
            stream.fill(&mut to, 8)?;
            stream.copy_rows(&from, rows, &mut to, rows)
        });
        let filled = match updated {
            Ok(()) => 8,
            Err(Error::Driver { source, .. }) => {
                assert_eq!(source.code(), ErrorCode::GRAPH_EXEC_UPDATE_FAILURE, "{source}");
                assert!(!gpu.is_simulated(), "{source}");
                9
            }
            Err(other) => panic!("{other}"),
        };
        graph.launch(&compute).unwrap();
        let expected = [1, 2, filled, 4, 5, filled];
        assert_eq!(compute.copy_to_vec(&graph.views().1).unwrap(), expected);
    });
}

/// Managed memory, and pinned memory in place, on either side.
#[test]
fn rows_of_host_memory_that_the_device_reaches_are_copied() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let values: Vec<u32> = (0..18).collect();
        let rows = Layout2::packed(2, 3).with_stride(6).at(3);
        let expected = [3, 4, 9, 10, 15, 16];
        let packed = Layout2::packed(2, 3);

        let pinned = compute.adopt(gpu.pinned_from(&values).unwrap()).unwrap();
        let mut to = compute.adopt(gpu.pinned::<u32>(6).unwrap()).unwrap();
        let (from, mapped) = (
            compute.mapped(&pinned).unwrap(),
            compute.mapped_mut(&mut to).unwrap(),
        );
        compute.copy_rows(from, rows, mapped, packed).unwrap();
        assert_eq!(*compute.release(to).unwrap().synchronize().unwrap(), expected);

        if gpu.properties().concurrent_managed_access {
            let source = compute.adopt(gpu.managed_from(&values).unwrap()).unwrap();
            let mut device = compute.alloc_zeroed::<u32>(6).unwrap();
            compute.copy_rows(&source, rows, &mut device, packed).unwrap();
            assert_eq!(compute.copy_to_vec(&device).unwrap(), expected);
            let mut back = compute.adopt(gpu.managed_from(&[7; 18]).unwrap()).unwrap();
            compute.copy_rows(&device, packed, &mut back, rows).unwrap();
            let back = compute.release(back).unwrap().synchronize().unwrap();
            let back = back.to_vec().unwrap();
            assert_eq!(back[..5], [7, 7, 7, 3, 4]);
            assert_eq!(back[14..], [7, 15, 16, 7]);
        }
    });
}

/// Memory of another device, which this device reaches.
#[test]
fn rows_of_a_peers_memory_are_copied() {
    Device::simulated(SimConfig::new(), |first| {
        first
            .simulated_peer(|second| {
                let (here, there) = (
                    first.stream::<Compute<_>>().unwrap(),
                    second.stream::<Compute<_>>().unwrap(),
                );
                let theirs = there.alloc_from_slice(&(0..18).collect::<Vec<u32>>()).unwrap();
                let theirs = here.acquire_peer(there.release(theirs).unwrap()).unwrap();
                let mut ours = here.alloc_zeroed::<u32>(4).unwrap();
                let rows = Layout2::packed(2, 2).with_stride(6);
                here.copy_rows(&theirs, rows, &mut ours, Layout2::packed(2, 2))
                    .unwrap();
                assert_eq!(here.copy_to_vec(&ours).unwrap(), [0, 1, 6, 7]);
            })
            .unwrap();
    })
    .unwrap();
}
