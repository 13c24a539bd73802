use cuda_rt::driver::{DeviceAddress, DriverError, ErrorCode, Location, Managed, Memory};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::{Host, Rig};

/// Managed memory is memory of every device, until it is freed. Its bytes are junk before the first
/// write, and again after the free.
#[test]
fn managed_memory_holds_junk_and_ends_with_its_free() {
    let rig = Rig::seeded(3);
    let s = rig.stream();
    let memory = rig.driver.alloc_managed(4096).unwrap();
    let address = DeviceAddress(memory.addr().get() as u64);
    let contents = || rig.read(address, 1024, s);
    assert!(contents().iter().filter(|word| **word == 0).count() < 8);
    rig.fill(address, &[5, 0, 0, 0], 1024, s).unwrap();
    assert_eq!(contents(), [5; 1024]);
    assert_eq!(rig.sim().counters().managed_live, 1);
    // SAFETY: any order of calls is sound on the simulated device; see the rig's text.
    unsafe { rig.driver.free_managed(memory) }.unwrap();
    assert_eq!(rig.sim().counters().managed_live, 0);
    // SAFETY: as above.
    assert!(unsafe { rig.driver.free_managed(memory) }.is_err(), "freed twice");
    assert!(rig.fill(address, &[1], 4, s).is_err());
    // SAFETY: as above.
    let prefetched = unsafe { rig.driver.prefetch(memory, 8, Location::Host, s) };
    assert_eq!(prefetched.unwrap_err().code(), ErrorCode::INVALID_VALUE);
    // The next owner gets the same pages.
    assert_eq!(rig.driver.alloc_managed(4096), Ok(memory));
    assert!(contents().iter().filter(|word| **word == 5).count() < 8);

    rig.begin_capture(s).unwrap();
    // SAFETY: as above.
    let captured = unsafe { rig.driver.prefetch(memory, 8, Location::Host, s) };
    assert_eq!(
        captured.unwrap_err().code(),
        ErrorCode::STREAM_CAPTURE_UNSUPPORTED
    );
    rig.end_capture(s).unwrap();
    assert!(rig.driver.alloc_managed(0).is_err());

    let without = Rig::new(SimConfig::new().managed_memory(false));
    let error = without.driver.alloc_managed(64).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NOT_SUPPORTED);
}

/// A kernel that is given memory which its device does not reach loses the device, and a fill or
/// copy is refused.
#[test]
fn work_reaches_no_host_memory_that_is_not_page_locked() {
    let rig = Rig::seeded(1);
    let s = rig.stream();
    let host = Host::new(8192);
    let there = DeviceAddress(host.memory().address().addr().get() as u64);
    let address = host.memory().address();
    let refused = |error: DriverError| assert_eq!(error.code(), ErrorCode::INVALID_VALUE);
    refused(rig.driver.mapped_address(address).unwrap_err());
    refused(rig.fill(there, &[1], 64, s).unwrap_err());
    rig.register_host(host.memory()).unwrap();
    assert_eq!(rig.driver.mapped_address(address), Ok(there));
    rig.fill(there, &[1], 8192, s).unwrap();
    refused(rig.fill(there, &[1], 8193, s).unwrap_err());
    refused(rig.copy(DeviceAddress(there.0 + 8100), there, 93, s).unwrap_err());
    rig.add(there, 2048, 1, s).unwrap();
    rig.synchronize_stream(s).unwrap();
    assert_eq!(host.get(2048), [0x0101_0102; 2048]);

    rig.unregister_host(host.memory()).unwrap();
    refused(rig.driver.mapped_address(address).unwrap_err());
    rig.add(there, 1, 1, s).unwrap();
    let lost = rig.synchronize_stream(s).unwrap_err();
    assert_eq!(lost.code(), ErrorCode::ILLEGAL_ADDRESS, "{lost}");
    assert!(lost.detail().contains("does not reach"), "{lost}");
}

#[test]
fn memory_is_limited_and_comes_back() {
    let rig = Rig::new(SimConfig::new().memory_bytes(1 << 20));
    let s = rig.stream();
    let most = rig.alloc(1 << 20, s).unwrap();
    assert_eq!(rig.driver.memory_info().unwrap().free_bytes, 0);
    let error = rig.alloc(1, s).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OUT_OF_MEMORY);
    assert!(error.to_string().contains("seed 0"), "{error}");
    rig.free(most, s).unwrap();
    rig.alloc(1, s).unwrap();
    assert_eq!(rig.driver.memory_info().unwrap().free_bytes, (1 << 20) - 256);
}

#[test]
fn a_free_waits_for_its_turn() {
    for seed in 0..200 {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let to = Host::new(4);
        // Each round may get the block that the previous round freed and may still use.
        let mut want = Vec::new();
        for round in 0..10u32 {
            let data = rig.alloc(256, s).unwrap();
            rig.fill(data, &round.to_ne_bytes(), 1, s).unwrap();
            rig.download(to, data, 1, s).unwrap();
            rig.free(data, s).unwrap();
            want = vec![round];
        }
        rig.synchronize_stream(s).unwrap();
        assert_eq!(to.get(1), want, "seed {seed}");
    }
}

#[test]
fn a_stream_may_reuse_its_block_while_the_free_is_pending() {
    let reused = (0..20).any(|seed| {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let s = rig.stream();
        let a = rig.alloc(256, s).unwrap();
        rig.free(a, s).unwrap();
        let pending = rig.sim().counters().operations_pending;
        pending == 2 && rig.alloc(256, s).unwrap() == a
    });
    assert!(reused);
}

#[test]
fn another_stream_never_gets_a_block_with_a_pending_free() {
    for seed in 0..50 {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let (s, other) = (rig.stream(), rig.stream());
        let a = rig.alloc(256, s).unwrap();
        rig.free(a, s).unwrap();
        assert_ne!(rig.alloc(256, other).unwrap(), a);
        rig.synchronize_stream(s).unwrap();
        assert_eq!(
            rig.alloc(256, other).unwrap(),
            a,
            "and gets it at once when it is"
        );
    }
}

#[test]
fn a_use_after_free_gives_wrong_bytes() {
    for seed in 0..20 {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let data = rig.alloc(4, s).unwrap();
        rig.fill(data, &[1, 0, 0, 0], 1, s).unwrap();
        rig.free(data, s).unwrap();
        assert_ne!(rig.read(data, 1, s), [1]);
    }
}

#[test]
fn a_use_before_the_allocation_is_lost() {
    let lost = |seed| {
        let rig = Rig::seeded(seed);
        let (s, other) = (rig.stream(), rig.stream());
        let data = rig.alloc(4, s).unwrap();
        rig.fill(data, &[1, 0, 0, 0], 1, other).unwrap();
        rig.synchronize_stream(other).unwrap();
        rig.read(data, 1, s) != [1]
    };
    assert!((0..20).filter(|seed| lost(*seed)).count() >= 5);
}

/// This includes memory that was never given out before. It was mapped as zeros, and a read before
/// the allocation must not find them.
#[test]
fn memory_is_junk_before_its_allocation_runs() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let (early, late) = (rig.stream(), rig.stream());
    let data = rig.alloc(64, late).unwrap();
    assert_ne!(rig.read(data, 16, early), [0; 16]);
}

#[test]
fn unwritten_memory_is_junk_that_the_seed_chooses() {
    let unwritten = |seed| {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let data = rig.alloc(64, s).unwrap();
        rig.read(data, 16, s)
    };
    assert_eq!(unwritten(1), unwritten(1));
    assert_ne!(unwritten(1), unwritten(2));
    assert_ne!(unwritten(1), [0; 16]);
}

#[test]
fn patterns_of_any_length_are_repeated() {
    let rig = Rig::seeded(0);
    let s = rig.stream();
    let data = rig.alloc(1 << 12, s).unwrap();
    for pattern_words in [1, 2, 3, 4, 5, 16, 33] {
        let pattern: Vec<u8> = (0..4 * pattern_words as u32).map(|i| i as u8).collect();
        rig.fill(data, &pattern, 7, s).unwrap();
        let want: Vec<u32> = pattern
            .repeat(7)
            .chunks(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(rig.read(data, 7 * pattern_words, s), want);
    }
}

#[test]
fn addresses_outside_device_memory_are_refused() {
    let rig = Rig::seeded(3);
    let s = rig.stream();
    let data = rig.alloc(4, s).unwrap();
    let before = rig.sim().counters().operations_pending;
    let wild = DeviceAddress(16);
    for error in [
        rig.copy(data, wild, 4, s).unwrap_err(),
        rig.copy(wild, data, 4, s).unwrap_err(),
        rig.fill(wild, &[1], 1, s).unwrap_err(),
        rig.fill(data, &[1], usize::MAX, s).unwrap_err(),
        rig.upload(wild, Host::new(4), 1, s).unwrap_err(),
        rig.download(Host::new(4), wild, 1, s).unwrap_err(),
        rig.free(wild, s).unwrap_err(),
        rig.alloc(0, s).unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::INVALID_VALUE, "{error}");
    }
    assert!(
        rig.sim().counters().operations_pending <= before,
        "nothing was enqueued"
    );
    rig.fill(wild, &[1], 0, s).unwrap();
    rig.add(wild, 1, 1, s).unwrap();
    let error = rig.synchronize_stream(s).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ILLEGAL_ADDRESS);
    assert!(error.is_sticky());
}

#[test]
fn a_block_is_freed_once() {
    let rig = Rig::seeded(0);
    let s = rig.stream();
    let data = rig.alloc(4, s).unwrap();
    rig.free(data, s).unwrap();
    assert_eq!(rig.free(data, s).unwrap_err().code(), ErrorCode::INVALID_VALUE);
}

#[test]
fn devices_come_and_go() {
    let mapped = || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    let round = |seed| {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let data = rig.alloc(1 << 10, s).unwrap();
        rig.fill(data, &[1], 1 << 10, s).unwrap();
        // Dropped with work pending.
    };
    round(0);
    let before = mapped();
    (0..3_000).for_each(round);
    assert!(mapped() < before + 100, "{before} mappings became {}", mapped());
}
