//! Page-locked host memory that work of the device reaches in place.

use std::ptr::NonNull;
use std::sync::Arc;

use cuda_rt::driver::{Driver, ErrorCode};

use crate::support::{Block, Host, Rig, SLOW};

/// The host memory as work of the device sees it.
#[track_caller]
fn mapped(rig: &Rig, host: Host) -> Block {
    let address = rig.driver.mapped_address(host.address).expect("a device address");
    let bytes = host.bytes;
    Block { address, bytes }
}

pub(crate) fn kernels_read_and_write_host_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    // Several pages, and a part that begins on no page.
    for (start, bytes) in [(0, 40_000), (4, 4), (8200, 20_000)] {
        let host = rig.host_with(&[1; 40_000]);
        let part = host.part(start, bytes);
        rig.step(mapped(&rig, part), SLOW, 2, 1, stream);
        rig.synchronize(stream);
        let written = 0x0202_0203_u32.to_ne_bytes();
        let mut expected = vec![1; 40_000];
        for word in expected[start..][..bytes].chunks_exact_mut(4) {
            word.copy_from_slice(&written);
        }
        assert!(host.read() == expected, "{bytes} bytes from {start}");
    }
}

/// The host writes between two launches, and each launch sees the latest values.
pub(crate) fn the_host_and_kernels_take_turns(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let host = rig.host(4 * 300);
    let memory = mapped(&rig, host);
    for round in 0..20_u32 {
        host.write(&round.to_ne_bytes().repeat(300));
        rig.step(memory, 20_000, 3, 1, stream);
        rig.synchronize(stream);
        assert_eq!(host.words(), [3 * round + 1; 300]);
    }
}

pub(crate) fn fills_of_host_memory(driver: &Arc<dyn Driver>) {
    const GUARD: u8 = 0xA5;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 9000;
    let host = rig.host(bytes);
    for (start, pattern, count) in [
        (0, &[7_u8][..], bytes),
        (1, &[1], 1),
        (3, &[9], 255),
        (6, &[1, 2], 100),
        (12, &[1, 2, 3], 77),
        (4, &[1, 2, 3, 4], 1000),
        (8, &[1, 2, 3, 4, 5, 6, 7, 8], 500),
    ] {
        host.write(&vec![GUARD; bytes]);
        let part = host.part(start, pattern.len() * count);
        rig.fill(mapped(&rig, part), pattern, stream);
        rig.synchronize(stream);
        let mut expected = vec![GUARD; bytes];
        expected[start..][..part.bytes].copy_from_slice(&pattern.repeat(count));
        assert!(host.read() == expected, "{pattern:?} from {start}");
    }
}

/// Each copy takes mapped memory where it takes memory of the device.
pub(crate) fn copies_of_mapped_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 70_001;
    let values: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    let (source, target) = (rig.host_with(&values), rig.host(bytes));
    let block = rig.block(bytes, stream);

    rig.copy(block, mapped(&rig, source), stream);
    assert!(rig.read(block, stream) == values, "to the device");
    rig.copy(mapped(&rig, target), block, stream);
    rig.synchronize(stream);
    assert!(target.read() == values, "from the device");
    target.write(&vec![0; bytes]);
    rig.copy(mapped(&rig, target), mapped(&rig, source), stream);
    rig.synchronize(stream);
    assert!(target.read() == values, "within the host");
    target.write(&vec![0; bytes]);
    rig.upload(mapped(&rig, target), source, stream);
    rig.synchronize(stream);
    assert!(target.read() == values, "an upload to mapped memory");
    target.write(&vec![0; bytes]);
    rig.download(target, mapped(&rig, source), stream);
    rig.synchronize(stream);
    assert!(target.read() == values, "a download of mapped memory");
}

/// Waits of other streams cover work on host memory, as all other work.
pub(crate) fn mapped_memory_moves_between_streams(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (first, second) = (rig.stream(), rig.stream());
    let host = rig.host_with(&[0; 4096]);
    let memory = mapped(&rig, host);
    let device = rig.block(4096, second);
    let there = rig.event();
    rig.step(memory, SLOW, 0, 5, first);
    rig.record(there, first);
    rig.wait(second, there);
    rig.copy(device, memory, second);
    rig.fill(memory, &[9, 0, 0, 0], second);
    assert_eq!(rig.read_words(device, second), [5; 1024]);
    assert_eq!(host.words(), [9; 1024]);
}

pub(crate) fn a_graph_works_on_host_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let host = rig.host_with(&[0; 4000]);
    let memory = mapped(&rig, host);
    rig.begin_capture(stream);
    rig.fill(memory.part(0, 2000), &[1, 0, 0, 0], stream);
    rig.step(memory, 10_000, 2, 1, stream);
    rig.copy(memory.part(0, 400), memory.part(2000, 400), stream);
    let graph = rig.end_capture(stream).expect("a graph");
    let mut rest = 0;
    for _ in 0..3 {
        rig.launch_graph(graph, stream);
        rig.synchronize(stream);
        rest = 2 * rest + 1;
        let expected = [vec![rest; 100], vec![3; 400], vec![rest; 500]].concat();
        assert_eq!(host.words(), expected);
    }
    rig.destroy_graph(graph);
}

pub(crate) fn memory_that_is_not_page_locked_has_no_address(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let plain = vec![0_u64; 1000];
    let error = driver
        .mapped_address(NonNull::from(&plain[..]).cast())
        .expect_err("not page-locked");
    assert_eq!(error.code(), ErrorCode::INVALID_VALUE, "{error}");
    assert!(!error.is_sticky());
    // The device is usable afterwards.
    let host = rig.host_with(&[1; 4]);
    rig.step(mapped(&rig, host), SLOW, 1, 1, stream);
    rig.synchronize(stream);
    assert_eq!(host.words(), [0x0101_0102]);
}
