//! Copies.

use std::ptr::NonNull;
use std::sync::Arc;

use cuda_rt::driver::{DeviceAddress, Driver};

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
