//! Memory with elements of another type, and casts that must be refused.
#![forbid(unsafe_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Element, Error, Live, PinnedBuffer, PinnedSlice, Stream};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Download;
}

#[test]
fn vectors_become_numbers_and_numbers_become_bits() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let vectors = compute.alloc_from_slice(&[[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
        let mut numbers: DeviceBuffer<f32, Compute<_>> = vectors.cast().unwrap();
        assert_eq!(numbers.len(), 4);
        // Views, for reading and for writing.
        let pair: &mut DeviceSlice<[f32; 2], _> = numbers[2..].cast_mut().unwrap();
        compute.fill(pair, [8.0, 9.0]).unwrap();
        let bits = DeviceSlice::cast::<u32>(&numbers).unwrap();
        let expected = [1.0f32, 2.0, 8.0, 9.0];
        assert_eq!(compute.copy_to_vec(bits).unwrap(), expected.map(f32::to_bits));
        // An idle owner, across a handoff and back.
        let idle = compute.release(numbers).unwrap().synchronize().unwrap();
        let words: DeviceBuffer<u64, _> = idle.cast().unwrap();
        let words = download.adopt(words).unwrap();
        let numbers = words.cast::<f32>().unwrap();
        assert_eq!(download.copy_to_vec(&numbers).unwrap(), expected);
    });
}

#[test]
fn pinned_bytes_become_numbers() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bytes = gpu.pinned_from(&[1u8, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        let numbers: PinnedBuffer<u32, _> = bytes.cast().unwrap();
        assert_eq!(*numbers, [1, 2].map(u32::from_le));
        let mut numbers = compute.adopt(numbers).unwrap();
        let device = compute.alloc_from_slice(&[7u8; 4]).unwrap();
        let last: &mut PinnedSlice<u8, _> = numbers[1..].cast_mut().unwrap();
        compute.copy_to_host(&device, last).unwrap();
        let numbers = compute.release(numbers).unwrap().synchronize().unwrap();
        assert_eq!(numbers[1], 0x0707_0707);
    });
}

/// What a refused cast says, and that owner and view agree.
#[track_caller]
fn refused<T: Element, U: Element, D: Live>(
    stream: &Stream<Compute<D>>,
    buffer: DeviceBuffer<T, Compute<D>>,
) -> (usize, usize, usize) {
    let len = buffer.len();
    let by_view = DeviceSlice::cast::<U>(&buffer).unwrap_err().to_string();
    let refused = buffer.try_cast::<U>().unwrap_err();
    let by_buffer = refused.to_string();
    assert_eq!(
        by_buffer,
        by_view.replace("DeviceSlice::cast: ", "DeviceBuffer::cast: ")
    );
    // The buffer is as it was.
    let mut buffer = refused.value;
    assert_eq!(buffer.len(), len);
    stream.fill(&mut buffer, T::zeroed()).unwrap();
    match refused.error {
        Error::Cast {
            bytes,
            element_bytes,
            misaligned_by,
            ..
        } => (bytes, element_bytes, misaligned_by),
        other => panic!("{other}"),
    }
}

#[test]
fn attack_cast_to_elements_that_do_not_fit() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let new = |len| compute.alloc_zeroed::<u8>(len).unwrap();
        assert_eq!(refused::<u8, u32, _>(&compute, new(7)), (7, 4, 0));
        assert_eq!(refused::<u8, [u64; 3], _>(&compute, new(16)), (16, 24, 0));
        // A part that begins between two numbers.
        let mut first = new(13);
        let part = first.split_off(5);
        assert_eq!(refused::<u8, u32, _>(&compute, part), (8, 4, 1));
        assert_eq!(refused::<u8, u16, _>(&compute, first), (5, 2, 0));
        // Of elements of no size, memory would hold any number.
        assert_eq!(refused::<u8, [u32; 0], _>(&compute, new(4)), (4, 0, 0));
        assert_eq!(refused::<u8, [u32; 0], _>(&compute, new(0)), (0, 0, 0));
        let none = compute.alloc_zeroed::<[u32; 0]>(usize::MAX).unwrap();
        let none = none.cast::<[u64; 0]>().unwrap();
        assert_eq!(none.len(), usize::MAX);
        assert_eq!(none.cast::<u8>().unwrap().len(), 0);
        // Pinned memory likewise.
        let mut host = gpu.pinned::<u8>(16).unwrap();
        let part = host.split_off(3);
        assert!(
            part.try_cast::<u32>()
                .unwrap_err()
                .value
                .cast::<[u8; 13]>()
                .is_ok()
        );
        let host = host.try_cast::<u16>().unwrap_err().value;
        assert_eq!(*host, [0; 3]);
    });
}

/// The bytes of a block stay the same, so it is freed once, whole or in parts of any elements.
#[test]
fn attack_split_cast_and_free_in_any_order() {
    for seed in 0..16 {
        Device::simulated(SimConfig::new().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let counters = || gpu.simulator().unwrap().counters();
            let frees = counters().frees();
            let mut bytes = compute.alloc_zeroed::<u8>(64).unwrap();
            let words: DeviceBuffer<u32, _> = bytes.split_off(16).cast().unwrap();
            let mut numbers: DeviceBuffer<u32, _> = bytes.cast().unwrap();
            compute.fill(&mut numbers, 3).unwrap();
            let whole = numbers.join(words).unwrap().cast::<[u64; 2]>().unwrap();
            let mut parts = whole.split_into(4);
            let pair = parts.remove(1).cast::<u64>().unwrap();
            drop(parts);
            assert_eq!(counters().frees(), frees, "a part is left");
            assert_eq!(compute.copy_to_vec(&pair).unwrap(), [0; 2]);
            drop(pair);
            assert_eq!(counters().frees(), frees + 1);
            assert_eq!(counters().allocations_live, counters().blocks_free);
        })
        .unwrap();
    }
}
