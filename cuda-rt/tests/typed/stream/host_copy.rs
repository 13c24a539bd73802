//! Copies from and to ordinary host memory.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Element, Error, Live};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
}

/// Bytes of one piece.
const PIECE: usize = 4 << 20;

fn there_and_back<D: Live, T: Element + PartialEq + std::fmt::Debug>(
    gpu: &Device<D>,
    len: usize,
    element: impl Fn(usize) -> T,
) {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    // A long loop is slow in debug builds, so one block of elements is repeated.
    let block: Vec<T> = (0..1021).map(element).collect();
    let mut before = block.repeat(len.div_ceil(block.len()));
    before.truncate(len);
    let mut memory = compute.alloc_zeroed::<T>(len).unwrap();
    let mut source = before.clone();
    compute.copy_from_slice(&source, &mut memory).unwrap();
    // The source is already read, whatever the device still has to do.
    source.fill(T::zeroed());
    drop(source);
    // Later work of the stream comes after the copy.
    let mut copy = compute.alloc_zeroed::<T>(len).unwrap();
    compute.copy(&memory, &mut copy).unwrap();
    let mut after = vec![T::zeroed(); len];
    compute.copy_to_slice(&copy, &mut after).unwrap();
    assert!(before == after, "{len} elements of {} bytes", size_of::<T>());
    // Into memory that nothing wrote, and into a new `Vec`.
    let copy = compute.alloc_from_slice(&before).unwrap();
    let after = compute.copy_to_vec(&copy).unwrap();
    assert!(before == after, "{len} elements of {} bytes", size_of::<T>());
}

#[test]
fn a_slice_of_any_length_arrives_whole() {
    for_each_device(|gpu| {
        for len in [0, 1, 255, PIECE, PIECE + 1, 3 * PIECE + 3] {
            there_and_back(gpu, len, |index| (index * 31 % 251) as u8);
        }
        for len in [0, 3, PIECE / 4 + 1] {
            there_and_back(gpu, len, |index| index as u64 * 3);
            there_and_back(gpu, len, |index| [index as f32, -1.0, 0.5]);
        }
    });
}

#[test]
fn a_copy_to_a_slice_waits_for_earlier_work_and_maps_two_pieces() {
    for seed in 0..8 {
        let config = SimConfig::new().seed(seed).order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut memory = compute.alloc_zeroed::<u32>(6 * PIECE / 4).unwrap();
            compute.fill(&mut memory, 7).unwrap();
            let mut host = vec![0_u32; memory.len()];
            compute.copy_to_slice(&memory, &mut host).unwrap();
            assert!(host == vec![7; host.len()]);
            let pieces = || gpu.pinned_stats().blocks_mapped;
            assert_eq!(pieces(), 2);
            // Six pieces; no piece is done before the host waits for it.
            compute.copy_from_slice(&host, &mut memory).unwrap();
            assert_eq!(pieces(), 2);
            compute.copy_to_slice(&memory, &mut host).unwrap();
            // The last two pieces of the previous copy may still be in flight.
            assert!(pieces() <= 4, "{}", pieces());
            // A part of a buffer.
            compute.copy_from_slice(&[1, 2, 3], &mut memory[1..4]).unwrap();
            let mut part = [0; 5];
            compute.copy_to_slice(&memory[..5], &mut part).unwrap();
            assert_eq!(part, [7, 1, 2, 3, 7]);
        })
        .unwrap();
    }
}

#[test]
fn lengths_are_compared_before_anything_is_enqueued() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut memory = compute.alloc_zeroed::<u8>(4).unwrap();
        let error = compute.copy_from_slice(&[1; 5], &mut memory).unwrap_err();
        assert!(
            matches!(
                error,
                Error::LengthMismatch {
                    during: "Stream::copy_from_slice",
                    source_len: 5,
                    destination_len: 4
                }
            ),
            "{error}"
        );
        let mut three = [9; 3];
        let error = compute.copy_to_slice(&memory, &mut three).unwrap_err();
        assert!(
            matches!(error, Error::LengthMismatch { source_len: 4, .. }),
            "{error}"
        );
        assert_eq!(three, [9; 3]);
        let mut back = [9; 4];
        compute.copy_to_slice(&memory, &mut back).unwrap();
        assert_eq!(back, [0; 4], "nothing of the longer source was copied");
    });
}

#[test]
fn a_copy_that_fails_half_way_leaves_whole_pieces_and_nothing_in_flight() {
    let calls = [
        Call::CopyToHost,
        Call::CopyToDevice,
        Call::RecordEvent,
        Call::SynchronizeEvent,
        Call::RegisterHost,
    ];
    let mut failed = 0;
    for (call, nth) in calls
        .into_iter()
        .flat_map(|call| (1..6).map(move |nth| (call, nth)))
    {
        let config = SimConfig::new().seed(nth).order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let len = 4 * PIECE;
            let mut memory = compute.alloc_zeroed::<u8>(len).unwrap();
            compute.fill(&mut memory, 1).unwrap();
            gpu.simulator().unwrap().fail_nth(call, nth, ErrorCode::UNKNOWN);
            let mut host = vec![0_u8; len];
            let down = compute.copy_to_slice(&memory, &mut host);
            // The bytes are complete at this point: later work does not change them.
            let seen = host.clone();
            let up = compute.copy_from_slice(&vec![2; len], &mut memory);
            let _ = compute.synchronize();
            assert_eq!(seen, host, "{call:?} {nth}");
            for piece in host.chunks(PIECE) {
                assert!(
                    piece.iter().all(|byte| *byte == piece[0]),
                    "{call:?} {nth}: a whole piece or none"
                );
            }
            if down.is_ok() {
                assert!(host == vec![1; len], "{call:?} {nth}");
            }
            failed += usize::from(down.is_err() || up.is_err());
        })
        .unwrap();
    }
    assert!(failed > 12, "{failed} of 25 runs failed");
}
