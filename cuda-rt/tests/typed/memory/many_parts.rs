//! A run-time number of parts: split, moved, shuffled and joined.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Error, PinnedBuffer};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Upload;
    Download;
}

fn lens<T, P>(parts: &[DeviceBuffer<T, P>]) -> Vec<usize> {
    parts.iter().map(DeviceBuffer::len).collect()
}

#[test]
fn parts_have_the_lengths_that_were_asked_for() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let new = |len| compute.alloc_zeroed::<u32>(len).unwrap();
        assert_eq!(lens(&new(12).split_into(4)), [3; 4]);
        assert_eq!(lens(&new(11).split_into(4)), [3, 3, 3, 2]);
        assert_eq!(lens(&new(2).split_into(4)), [1, 1, 0, 0]);
        assert_eq!(lens(&new(0).split_into(2)), [0, 0]);
        assert_eq!(lens(&new(5).split_into(1)), [5]);
        assert_eq!(lens(&new(12).into_chunks(5)), [5, 5, 2]);
        assert_eq!(lens(&new(12).into_chunks(6)), [6, 6]);
        assert_eq!(lens(&new(3).into_chunks(usize::MAX)), [3]);
        assert_eq!(lens(&new(0).into_chunks(3)), [0; 0]);
        let none = std::panic::AssertUnwindSafe(|| new(4).split_into(0));
        assert!(std::panic::catch_unwind(none).is_err());
        let empty = std::panic::AssertUnwindSafe(|| new(4).into_chunks(0));
        assert!(std::panic::catch_unwind(empty).is_err());
    });
}

/// Parts go to several streams as one handoff each, and come back as one buffer.
#[test]
fn parts_travel_apart_and_become_one_buffer() {
    for_each_device(|gpu| {
        let (compute, upload, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        for count in [1, 2, 3, 7, 16] {
            let parts = compute.alloc_zeroed::<u32>(100).unwrap().split_into(count);
            let expected: Vec<u32> = parts
                .iter()
                .enumerate()
                .flat_map(|(index, part)| vec![index as u32; part.len()])
                .collect();
            let mut back = Vec::new();
            for (index, part) in compute.release(parts).unwrap().split().into_iter().enumerate() {
                // Each second part is written on another stream.
                back.push(match index % 2 {
                    0 => {
                        let mut part = upload.acquire(part).unwrap();
                        upload.fill(&mut part, index as u32).unwrap();
                        upload.release(part).unwrap()
                    }
                    _ => {
                        let mut part = download.acquire(part).unwrap();
                        download.fill(&mut part, index as u32).unwrap();
                        download.release(part).unwrap()
                    }
                });
            }
            let parts = compute.acquire_all(back).unwrap();
            let whole = DeviceBuffer::join_all(parts).unwrap();
            assert_eq!(compute.copy_to_vec(&whole).unwrap(), expected);
        }
    });
}

/// A joined block is freed once, as if it had never been split; a refused join frees nothing.
#[test]
fn a_refused_join_names_the_part_and_gives_all_back() {
    Device::simulated(SimConfig::new().order(Order::Random), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let frees = || gpu.simulator().unwrap().counters().frees();
        let before = frees();
        let mut parts = compute.alloc_zeroed::<u32>(12).unwrap().split_into(4);
        parts.swap(1, 2);
        let refused = DeviceBuffer::try_join_all(parts).unwrap_err();
        assert!(
            matches!(refused.error, Error::PartNotAdjacent { index: 1, .. }),
            "{refused}"
        );
        let mut parts = refused.value;
        assert_eq!(lens(&parts), [3; 4]);
        parts.swap(1, 2);
        let missing = parts.remove(2);
        let refused = DeviceBuffer::try_join_all(parts).unwrap_err();
        assert!(matches!(refused.error, Error::PartNotAdjacent { index: 2, .. }));
        let mut parts = refused.value;
        parts.insert(2, missing);
        // A part of another block.
        parts.push(compute.alloc_zeroed(3).unwrap());
        let refused = DeviceBuffer::try_join_all(parts).unwrap_err();
        assert!(matches!(refused.error, Error::PartNotAdjacent { index: 4, .. }));
        let mut parts = refused.value;
        drop(parts.pop());
        assert_eq!(frees() - before, 1);
        drop(DeviceBuffer::join_all(parts).unwrap());
        assert_eq!(frees() - before, 2);
        let none = DeviceBuffer::join_all(compute.alloc_zeroed::<u32>(0).unwrap().into_chunks(1));
        assert!(matches!(none, Err(Error::PartNotAdjacent { index: 0, .. })));
    })
    .unwrap();
}

#[test]
fn pinned_parts_are_filled_apart_and_read_as_one() {
    for_each_device(|gpu| {
        let mut parts = gpu.pinned::<u32>(10).unwrap().split_into(3);
        for (index, part) in parts.iter_mut().enumerate() {
            part.fill(index as u32);
        }
        parts.swap(0, 1);
        let mut parts = PinnedBuffer::try_join_all(parts).unwrap_err().value;
        parts.swap(0, 1);
        let whole = PinnedBuffer::join_all(parts).unwrap();
        assert_eq!(*whole, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]);
        let chunks = whole.into_chunks(4);
        assert_eq!(
            chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(),
            [4, 4, 2]
        );
    });
}
