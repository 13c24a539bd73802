//! Several devices of one host: raw calls.

use std::sync::Arc;

use cuda_rt::checker::Check;
use cuda_rt::driver::{ErrorCode, Memory, PeerAccess, Peers, Tools};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::Rig;

/// Two devices of one host.
fn pair(config: SimConfig) -> (Rig, Rig) {
    let first = Rig::new(config);
    let second = Rig {
        driver: first.driver.another(),
    };
    (first, second)
}

const BYTES: usize = 4 * 64;

/// Copies data written on one device to the other, with a handoff's order or without order. Returns
/// the data that arrived.
fn copied(config: SimConfig, ordered: bool) -> (Vec<u32>, usize) {
    let (here, there) = pair(config);
    let (s, owner) = (here.stream(), there.stream());
    let (to, from) = (here.alloc(BYTES, s).unwrap(), there.alloc(BYTES, owner).unwrap());
    there.fill(from, &[7, 0, 0, 0], BYTES / 4, owner).unwrap();
    let (released, copied) = (there.event(), here.event());
    if ordered {
        there.record_event(released, owner).unwrap();
        there.wait_event(s, released).unwrap();
    }
    here.copy_peer((&here.driver, to), (&there.driver, from), BYTES, s)
        .unwrap();
    if ordered {
        here.record_event(copied, s).unwrap();
        here.wait_event(owner, copied).unwrap();
    }
    there.fill(from, &[8, 0, 0, 0], BYTES / 4, owner).unwrap();
    let words = here.read(to, BYTES / 4, s);
    there.synchronize_stream(owner).unwrap();
    (words, here.driver.races().len())
}

/// A kernel reaches the memory of another device once access was asked for, and where there is a
/// link. Access in one direction is no access in the other.
#[test]
fn a_kernel_reaches_the_memory_of_a_device_that_gave_access() {
    for (link, ask) in [(true, true), (true, false), (false, true)] {
        let (here, there) = pair(SimConfig::new().peer_access(link));
        let (s, owner) = (here.stream(), there.stream());
        let memory = there.alloc(BYTES, owner).unwrap();
        there.fill(memory, &[7, 0, 0, 0], BYTES / 4, owner).unwrap();
        there.synchronize_stream(owner).unwrap();
        if ask {
            here.driver.peer_access(there.driver.peer()).unwrap();
        } else {
            there.driver.peer_access(here.driver.peer()).unwrap();
        }
        here.add(memory, BYTES as u64 / 4, 1, s).unwrap();
        let ran = here.synchronize_stream(s);
        if link && ask {
            assert_eq!(there.read(memory, BYTES / 4, owner), [8; BYTES / 4]);
        } else {
            assert_eq!(ran.unwrap_err().code(), ErrorCode::ILLEGAL_ADDRESS);
        }
    }
}

/// A copy between devices needs two edges. Without them the bytes are wrong, and the checker
/// reports it.
#[test]
fn h37_a_missing_edge_between_devices_gives_wrong_bytes_and_is_reported() {
    let mut wrong = 0;
    for seed in 0..16 {
        for order in [Order::Random, Order::Lazy] {
            let config = SimConfig::new().seed(seed).order(order);
            assert_eq!(
                copied(config.clone(), true),
                (vec![7; BYTES / 4], 0),
                "seed {seed}"
            );
            let (words, races) = copied(config, false);
            assert!(races > 0, "seed {seed}");
            wrong += usize::from(words != [7; BYTES / 4]);
        }
    }
    assert!(wrong > 8, "only {wrong} of 32 orders show it");
}

#[test]
fn each_device_has_memory_of_its_own() {
    let (here, there) = pair(SimConfig::new().memory_bytes(1 << 20));
    let (s, owner) = (here.stream(), there.stream());
    let all = here.alloc(1 << 20, s).unwrap();
    assert_eq!(here.alloc(1, s).unwrap_err().code(), ErrorCode::OUT_OF_MEMORY);
    let theirs = there.alloc(1 << 20, owner).unwrap();
    assert_eq!(there.driver.pool_stats().unwrap().used_bytes, 1 << 20);
    here.free(all, s).unwrap();
    assert_eq!(here.driver.memory_info().unwrap().free_bytes, 1 << 20);
    assert_eq!(there.driver.memory_info().unwrap().free_bytes, 0);
    // An address outside its device's memory is refused.
    let small = here.alloc(64, s).unwrap();
    for (to, from) in [
        ((&*here.driver, theirs), (&*there.driver, theirs)),
        ((&*here.driver, small), (&*there.driver, small)),
    ] {
        let refused = here.copy_peer(to, from, 64, s).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::INVALID_VALUE);
    }
    assert_eq!(here.sim().counters().bytes_between_devices, 0);
}

#[test]
fn devices_of_other_hosts_are_no_peers() {
    let (here, there) = pair(SimConfig::new());
    let apart = Rig::seeded(0);
    assert_eq!(
        here.driver.peer_access(there.driver.peer()),
        Ok(PeerAccess::Direct)
    );
    let refused = here.driver.peer_access(apart.driver.peer()).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_DEVICE);
    let (s, other) = (here.stream(), apart.stream());
    let (to, from) = (here.alloc(64, s).unwrap(), apart.alloc(64, other).unwrap());
    let refused = here.copy_peer((&here.driver, to), (&apart.driver, from), 64, s);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::INVALID_DEVICE);
}

/// All devices of a host are lost with one, and a driver may be dropped before its enqueued work
/// has run.
#[test]
fn a_device_outlives_its_peers() {
    let (here, there) = pair(SimConfig::new().order(Order::Lazy).check(Check::Record));
    let (s, owner) = (here.stream(), there.stream());
    let (to, from) = (here.alloc(64, s).unwrap(), there.alloc(64, owner).unwrap());
    there.fill(from, &[5], 64, owner).unwrap();
    let released = there.event();
    there.record_event(released, owner).unwrap();
    there.wait_event(s, released).unwrap();
    here.copy_peer((&here.driver, to), (&there.driver, from), 64, s)
        .unwrap();
    there.destroy_stream(owner).unwrap();
    drop(Arc::clone(&there.driver));
    drop(there);
    assert_eq!(here.read(to, 16, s), [0x0505_0505; 16]);
    assert_eq!(here.driver.races().len(), 0);
}
