//! Allocation, fills and host memory.

use std::sync::Arc;

use cuda_rt::driver::{DeviceAddress, Driver, ErrorCode, HostMemory};

use crate::support::{Rig, SLOW};

pub(crate) fn blocks_are_aligned_and_disjoint(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let blocks: Vec<_> = [1, 2, 3, 255, 256, 257, 4096, 65_537, 1 << 20]
        .map(|bytes| rig.block(bytes, stream))
        .into();
    for (i, block) in blocks.iter().enumerate() {
        assert!(block.address.0.is_multiple_of(256), "{block:?}");
        rig.fill(*block, &[i as u8 + 1], stream);
    }
    for (i, block) in blocks.iter().enumerate() {
        assert_eq!(
            rig.read(*block, stream),
            vec![i as u8 + 1; block.bytes],
            "{block:?}"
        );
    }
}

/// Each block is used after its last owner freed it, although the host never waits.
pub(crate) fn reuse_follows_the_order_of_the_stream(driver: &Arc<dyn Driver>) {
    const ROUNDS: usize = 100;
    let rig = Rig::new(driver);
    let streams = [rig.stream(), rig.stream()];
    let hosts = streams.map(|_| rig.host(ROUNDS * 1024));
    for round in 0..ROUNDS {
        for (stream, host) in streams.into_iter().zip(hosts) {
            let block = rig.alloc(1024, stream).expect("allocate");
            rig.fill(block, &[round as u8], stream);
            rig.step(block, 10_000, 1, 0x0101_0101, stream);
            rig.download(host.part(round * 1024, 1024), block, stream);
            rig.free(block, stream);
        }
    }
    for (stream, host) in streams.into_iter().zip(hosts) {
        rig.synchronize(stream);
        let expected: Vec<u8> = (0..ROUNDS).flat_map(|round| [round as u8 + 1; 1024]).collect();
        assert_eq!(host.read(), expected);
    }
}

/// A block that is kept for its next owner: the driver is told, and the next owner's bytes are
/// what it wrote.
pub(crate) fn a_block_may_be_kept_for_its_next_owner(driver: &Arc<dyn Driver>) {
    const ROUNDS: usize = 50;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let host = rig.host(ROUNDS * 1024);
    let block = rig.alloc(1024, stream).expect("allocate");
    for round in 0..ROUNDS {
        rig.fill(block, &[round as u8], stream);
        rig.download(host.part(round * 1024, 1024), block, stream);
        // SAFETY: the stream is live, and the block is used again behind `note_alloc` only.
        unsafe { driver.note_free(block.address, stream) }.expect("note");
        // SAFETY: as above, in the order of one stream.
        unsafe { driver.note_alloc(block.address, stream) }.expect("note");
    }
    // SAFETY: as above.
    unsafe { driver.note_free(block.address, stream) }.expect("note");
    // What is kept is freed like any block.
    rig.free(block, stream);
    rig.synchronize(stream);
    let expected: Vec<u8> = (0..ROUNDS).flat_map(|round| [round as u8; 1024]).collect();
    assert_eq!(host.read(), expected);
}

pub(crate) fn a_block_moves_between_streams(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (owner, user) = (rig.stream(), rig.stream());
    let host = rig.host(20 * 400);
    for round in 0..20 {
        let (there, back) = (rig.event(), rig.event());
        let block = rig.alloc(400, owner).expect("allocate");
        rig.fill(block, &[0], owner);
        rig.record(there, owner);
        rig.wait(user, there);
        rig.step(block, 20_000, 0, round, user);
        rig.download(host.part(round as usize * 400, 400), block, user);
        rig.record(back, user);
        rig.wait(owner, back);
        rig.free(block, owner);
    }
    rig.synchronize(user);
    let expected: Vec<u32> = (0..20).flat_map(|round| [round; 100]).collect();
    assert_eq!(host.words(), expected);
}

pub(crate) fn fills_of_every_length(driver: &Arc<dyn Driver>) {
    const GUARD: u8 = 0xA5;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    for len in 1..=32_usize {
        for count in [1_usize, 2, 3, 37, 1001] {
            // The contract demands no alignment: start 1, 2 or more bytes after an aligned place,
            // with room to see writes beside the range.
            let start = 256 + (1 << ((len + count) % 4));
            let block = rig.alloc(start + len * count + 256, stream).expect("allocate");
            rig.fill(block, &[GUARD], stream);
            // All bytes different, then all the same, then two equal halves.
            for period in [len, 1, len.div_ceil(2)] {
                let pattern: Vec<u8> = (0..len).map(|i| (i % period) as u8 + 1).collect();
                rig.fill(block.part(start, len * count), &pattern, stream);
                let bytes = rig.read(block, stream);
                let (before, rest) = bytes.split_at(start);
                let (filled, after) = rest.split_at(len * count);
                assert_eq!(
                    filled,
                    pattern.repeat(count),
                    "length {len}, count {count}, period {period}"
                );
                assert!(
                    before.iter().chain(after).all(|&byte| byte == GUARD),
                    "length {len}, count {count}: beside"
                );
            }
            rig.free(block, stream);
        }
    }
}

pub(crate) fn a_fill_of_nothing_does_nothing(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    for pattern in [&[1_u8][..], &[1, 2, 3], &[0; 8]] {
        // SAFETY: the call writes nothing, so any address will do.
        unsafe { driver.fill(DeviceAddress(8), pattern, 0, stream) }.expect("nothing to do");
    }
    rig.synchronize(stream);
}

pub(crate) fn more_than_there_is_fails_and_nothing_breaks(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let total = driver.properties().total_memory_bytes as usize;
    assert!(total > 0);
    for bytes in [total + 1, 2 * total] {
        let error = rig.alloc(bytes, stream).expect_err("more than there is");
        assert_eq!(error.code(), ErrorCode::OUT_OF_MEMORY, "{error}");
        assert!(!error.is_sticky());
    }
    let block = rig.zeroed(4000, stream);
    rig.step(block, SLOW, 1, 1, stream);
    assert_eq!(rig.read_words(block, stream), [1; 1000]);
}

pub(crate) fn memory_info_is_plausible(driver: &Arc<dyn Driver>) {
    let info = driver.memory_info().expect("memory info");
    assert!(info.free_bytes <= info.total_bytes, "{info:?}");
    assert!(
        info.total_bytes <= driver.properties().total_memory_bytes,
        "{info:?}"
    );
    assert!(info.total_bytes > 0);
}

/// On a GPU other cases use the same pool at the same time; the assertions hold whatever they do.
pub(crate) fn the_pool_reports_its_memory_and_returns_it(driver: &Arc<dyn Driver>) {
    const BYTES: u64 = 256 << 20;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let stats = || driver.pool_stats().expect("statistics of the pool");
    let unused = || {
        let now = stats();
        now.reserved_bytes.saturating_sub(now.used_bytes)
    };
    let allocate = || rig.alloc(BYTES as usize, stream).expect("allocate");
    assert_eq!(stats().release_threshold_bytes, u64::MAX, "it keeps all at first");

    driver.reset_pool_peaks().expect("reset the peaks");
    let block = allocate();
    rig.synchronize(stream);
    let full = stats();
    assert!(full.used_bytes >= BYTES, "{full:?}");
    assert!(full.reserved_bytes >= full.used_bytes, "{full:?}");
    assert!(full.used_peak_bytes >= BYTES, "{full:?}");
    assert!(full.reserved_peak_bytes >= full.used_peak_bytes, "{full:?}");
    driver.trim_pool(0).expect("trim");
    assert!(stats().reserved_bytes >= BYTES, "what is in use stays");

    rig.free(block, stream);
    rig.synchronize(stream);
    if !rig.is_cuda() {
        assert_eq!(unused(), BYTES, "kept for reuse");
    }
    driver.trim_pool(0).expect("trim");
    assert!(unused() < BYTES, "{:?}", stats());
    assert!(stats().used_peak_bytes >= BYTES, "a peak stays");

    driver.set_release_threshold(1 << 20).expect("set the threshold");
    assert_eq!(stats().release_threshold_bytes, 1 << 20);
    let block = allocate();
    rig.free(block, stream);
    rig.synchronize(stream);
    assert!(unused() < BYTES, "given back when the host waits: {:?}", stats());
    driver.set_release_threshold(u64::MAX).expect("set the threshold");
    if !rig.is_cuda() {
        driver.reset_pool_peaks().expect("reset the peaks");
        assert_eq!((stats().used_peak_bytes, stats().used_bytes), (0, 0));
    }
}

/// The pool keeps memory that is freed in a stream's order while work before the free still uses
/// it.
pub(crate) fn trimming_keeps_memory_that_pending_work_uses(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let host = rig.host(1 << 20);
    let block = rig.alloc(1 << 20, stream).expect("allocate");
    rig.fill(block, &[0], stream);
    rig.step(block, SLOW, 0, 0x0303_0303, stream);
    rig.fill(block, &[7], stream);
    rig.download(host, block, stream);
    rig.free(block, stream);
    driver.trim_pool(0).expect("trim");
    let other = rig.stream();
    let next = rig.block(1 << 20, other);
    rig.fill(next, &[9], other);
    rig.synchronize(stream);
    assert_eq!(host.read(), [7; 1 << 20]);
}

pub(crate) fn host_memory_is_readable_once_unregistered(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let block = rig.block(10_000, stream);
    rig.fill(block, &[1, 2, 3, 4, 5], stream);

    let memory = HostMemory::map(10_000).expect("map");
    let bytes = || {
        // SAFETY: the memory is mapped for that many bytes, and no pending work writes it at any
        // call of this closure.
        unsafe { std::slice::from_raw_parts(memory.address().as_ptr().cast::<u8>(), 10_000) }.to_vec()
    };
    for round in 0..3 {
        // SAFETY: the memory stays mapped until the end, and is not registered now.
        unsafe { driver.register_host(&memory) }.expect("register");
        if round == 0 {
            assert_eq!(bytes(), [0; 10_000], "registered memory keeps what it held");
        }
        // SAFETY: both are live, and have this length.
        unsafe { driver.copy_to_host(memory.address(), block.address, 10_000, stream) }.expect("download");
        rig.synchronize(stream);
        // SAFETY: the memory is registered, and the copy is done.
        unsafe { driver.unregister_host(&memory) }.expect("unregister");
        assert_eq!(bytes(), [1, 2, 3, 4, 5].repeat(2000));
    }
}
