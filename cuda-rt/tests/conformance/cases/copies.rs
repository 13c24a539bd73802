//! Copies.

use std::ptr::NonNull;
use std::sync::Arc;

use cuda_rt::driver::{CopyExtent, DeviceAddress, Driver, Pitch};

use crate::support::{Rig, SLOW};

const OFFSETS: [usize; 6] = [0, 1, 3, 7, 13, 255];
const LENGTHS: [usize; 8] = [1, 2, 3, 5, 31, 257, 4099, 65_537];

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

pub(crate) fn copies_at_odd_offsets_and_lengths_arrive(driver: &Arc<dyn Driver>) {
    const GUARD: u8 = 0x5A;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 66_000;
    let values = numbered(bytes);
    let (source, target) = (rig.host_with(&values), rig.host(bytes));
    let block = rig.block(bytes, stream);
    for offset in OFFSETS {
        for len in LENGTHS {
            let from = (offset * 3 + 1) % 200;
            rig.fill(block, &[GUARD], stream);
            rig.upload(block.part(offset, len), source.part(from, len), stream);
            let mut expected = vec![GUARD; bytes];
            expected[offset..][..len].copy_from_slice(&values[from..][..len]);
            assert_eq!(
                rig.read(block, stream),
                expected,
                "to device: offset {offset}, length {len}"
            );

            target.write(&vec![GUARD; bytes]);
            rig.download(target.part(from, len), block.part(offset, len), stream);
            rig.synchronize(stream);
            let mut expected = vec![GUARD; bytes];
            expected[from..][..len].copy_from_slice(&values[from..][..len]);
            assert_eq!(target.read(), expected, "to host: offset {offset}, length {len}");
        }
    }
}

pub(crate) fn copies_within_the_device_arrive(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 66_000;
    let values = numbered(bytes);
    let (source, target) = (rig.block(bytes, stream), rig.block(bytes, stream));
    rig.upload(source, rig.host_with(&values), stream);
    for offset in OFFSETS {
        for len in LENGTHS {
            let from = (offset * 5 + 2) % 300;
            rig.fill(target, &[0xC3], stream);
            rig.copy(target.part(offset, len), source.part(from, len), stream);
            let mut expected = vec![0xC3; bytes];
            expected[offset..][..len].copy_from_slice(&values[from..][..len]);
            assert_eq!(
                rig.read(target, stream),
                expected,
                "offset {offset}, length {len}"
            );
        }
    }
    // Two parts of one block.
    rig.copy(source.part(40_001, 20_000), source.part(1, 20_000), stream);
    assert_eq!(rig.read(source.part(40_001, 20_000), stream), &values[1..20_001]);
}

/// Extents of rows, with the pitches of both sides: packed and not, one plane and several.
fn shapes() -> Vec<(CopyExtent, Pitch, Pitch)> {
    let mut shapes = Vec::new();
    for (width_bytes, height, depth) in [
        (1, 1, 1),
        (7, 5, 1),
        (64, 16, 1),
        (333, 1, 4),
        (5, 3, 4),
        (16, 4, 8),
    ] {
        for (gap, rows) in [(0, 0), (3, 0), (0, 2), (13, 5)] {
            let extent = CopyExtent {
                width_bytes,
                height,
                depth,
            };
            let packed = Pitch {
                bytes: width_bytes,
                rows: height,
            };
            let apart = Pitch {
                bytes: width_bytes + gap,
                rows: height + rows,
            };
            shapes.extend([
                (extent, packed, apart),
                (extent, apart, packed),
                (extent, apart, apart),
            ]);
        }
    }
    shapes
}

/// What a copy of rows leaves in `to`.
fn copied(to: &[u8], to_pitch: Pitch, from: &[u8], from_pitch: Pitch, extent: CopyExtent) -> Vec<u8> {
    let mut result = to.to_vec();
    for plane in 0..extent.depth {
        for row in 0..extent.height {
            let at = |pitch: Pitch| (plane * pitch.rows + row) * pitch.bytes;
            let bytes = &from[at(from_pitch)..][..extent.width_bytes];
            result[at(to_pitch)..][..extent.width_bytes].copy_from_slice(bytes);
        }
    }
    result
}

pub(crate) fn copies_of_rows_arrive_and_leave_the_gaps(driver: &Arc<dyn Driver>) {
    const GUARD: u8 = 0x5A;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 9000;
    let values = numbered(bytes);
    let (source, target) = (rig.host_with(&values), rig.host(bytes));
    let (near, far) = (rig.block(bytes, stream), rig.block(bytes, stream));
    rig.upload(near, source, stream);
    let guards = vec![GUARD; bytes];
    for (extent, to, from) in shapes() {
        for offset in [0, 1, 37] {
            let rest = bytes - offset;
            let expected = {
                let mut expected = guards.clone();
                let rows = copied(&guards[offset..], to, &values[2 * offset..], from, extent);
                expected[offset..].copy_from_slice(&rows);
                expected
            };
            let said = format!("{extent:?}, to {to:?}, from {from:?}, offset {offset}");
            let (part, device) = (
                source.part(2 * offset, bytes - 2 * offset),
                near.part(2 * offset, bytes - 2 * offset),
            );
            rig.fill(far, &[GUARD], stream);
            rig.upload_rows((far.part(offset, rest), to), (part, from), extent, stream);
            assert_eq!(rig.read(far, stream), expected, "to device: {said}");

            rig.fill(far, &[GUARD], stream);
            rig.copy_rows((far.part(offset, rest), to), (device, from), extent, stream);
            assert_eq!(rig.read(far, stream), expected, "within the device: {said}");

            target.write(&guards);
            rig.download_rows((target.part(offset, rest), to), (device, from), extent, stream);
            rig.synchronize(stream);
            assert_eq!(target.read(), expected, "to host: {said}");
        }
    }
}

pub(crate) fn rows_that_overlap_are_refused(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (to, from) = (rig.zeroed(256, stream), rig.block(256, stream));
    rig.fill(from, &[7], stream);
    let extent = CopyExtent {
        width_bytes: 8,
        height: 4,
        depth: 2,
    };
    let fits = Pitch { bytes: 8, rows: 4 };
    let narrow = Pitch { bytes: 7, rows: 4 };
    let low = Pitch { bytes: 8, rows: 3 };
    for (to_pitch, from_pitch) in [(narrow, fits), (fits, narrow), (low, fits), (fits, low)] {
        let (to, from) = ((to.address, to_pitch), (from.address, from_pitch));
        // SAFETY: the rows are in bounds, and nothing else uses the blocks now.
        let refused = unsafe { driver.copy_rows(to, from, extent, stream) };
        assert!(!refused.expect_err("rows overlap").is_sticky());
    }
    assert_eq!(rig.read(to, stream), [0; 256], "nothing was enqueued");
}

pub(crate) fn a_copy_of_rows_is_replayed_by_a_graph(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (captured, stream) = (rig.stream(), rig.stream());
    let (input, output) = (rig.host_with(&numbered(64)), rig.host(64));
    let (frame, packed) = (rig.zeroed(64, stream), rig.zeroed(64, stream));
    rig.synchronize(stream);
    let extent = CopyExtent {
        width_bytes: 3,
        height: 2,
        depth: 2,
    };
    let (apart, close) = (Pitch { bytes: 8, rows: 4 }, Pitch { bytes: 3, rows: 2 });
    rig.begin_capture(captured);
    rig.upload_rows((frame, apart), (input, close), extent, captured);
    rig.copy_rows((packed, close), (frame, apart), extent, captured);
    rig.download_rows((output, apart), (packed, close), extent, captured);
    let graph = rig.end_capture(captured).expect("a graph");
    assert_eq!(rig.read(packed, stream), [0; 64]);
    for more in 0..3 {
        let values: Vec<u8> = numbered(64)
            .iter()
            .map(|value| value.wrapping_add(more))
            .collect();
        input.write(&values);
        output.write(&[0x5A; 64]);
        rig.launch_graph(graph, stream);
        rig.synchronize(stream);
        assert_eq!(output.read(), copied(&[0x5A; 64], apart, &values, close, extent));
    }
    rig.destroy_graph(graph);
}

/// Empty buffers have dangling addresses, which CUDA must not see.
pub(crate) fn a_copy_of_nothing_does_nothing(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (device, host) = (DeviceAddress(8), NonNull::<u64>::dangling().cast());
    // SAFETY: the call reads and writes nothing, so any address will do.
    unsafe { driver.copy_to_device(device, host, 0, stream) }.expect("nothing to do");
    // SAFETY: as above.
    unsafe { driver.copy_to_host(host, device, 0, stream) }.expect("nothing to do");
    // SAFETY: as above.
    unsafe { driver.copy(device, device, 0, stream) }.expect("nothing to do");
    let pitch = Pitch { bytes: 8, rows: 8 };
    for (width_bytes, height, depth) in [(0, 4, 4), (4, 0, 4), (4, 4, 0)] {
        let extent = CopyExtent {
            width_bytes,
            height,
            depth,
        };
        // SAFETY: as above.
        unsafe { driver.copy_rows_to_device((device, pitch), (host, pitch), extent, stream) }
            .expect("nothing to do");
        // SAFETY: as above.
        unsafe { driver.copy_rows_to_host((host, pitch), (device, pitch), extent, stream) }
            .expect("nothing to do");
        // SAFETY: as above.
        unsafe { driver.copy_rows((device, pitch), (device, pitch), extent, stream) }.expect("nothing to do");
    }
    rig.synchronize(stream);
}

/// The host changes the source only after the copy; the target is complete once the event is done.
pub(crate) fn large_copies_are_asynchronous(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (up, down) = (rig.stream(), rig.stream());
    let bytes = if rig.is_cuda() { 64 << 20 } else { 1 << 20 };
    let values = numbered(bytes);
    let (source, target) = (rig.host_with(&values), rig.host(bytes));
    let (block, sent, received) = (rig.block(bytes, up), rig.event(), rig.event());
    rig.step(rig.zeroed(4, up), SLOW, 1, 1, up);
    rig.upload(block, source, up);
    rig.record(sent, up);
    rig.wait(down, sent);
    rig.download(target, block, down);
    rig.record(received, down);
    rig.poll(sent);
    source.write(&vec![0; bytes]);
    rig.poll(received);
    assert!(target.read() == values, "bytes were lost");
}
