//! Two devices: access, copies, and events of one that streams of the other wait for.

use std::sync::Arc;

use cuda_rt::driver::{DeviceAddress, Driver, ErrorCode, PeerAccess, RawPeer, RawStream};

use crate::support::{Block, Rig, SLOW};

/// Copies from a block of one rig to a block of the other, of which one is `here`'s.
#[track_caller]
fn copy(here: &Rig, to: (&Rig, Block), from: (&Rig, Block), stream: RawStream) {
    assert_eq!(to.1.bytes, from.1.bytes);
    let (target, source) = (
        (to.0.driver.peer(), to.1.address),
        (from.0.driver.peer(), from.1.address),
    );
    // SAFETY: both are live and in bounds; the case orders the copy, by the suite's convention.
    unsafe { here.driver.copy_peer(target, source, to.1.bytes, stream) }.expect("copy between devices");
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 11 + i / 253) as u8).collect()
}

pub(crate) fn access_can_be_asked_for_again(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let access = first.peer_access(second.peer()).expect("ask for access");
    assert_eq!(first.peer_access(second.peer()), Ok(access));
    assert!(second.peer_access(first.peer()).is_ok());
    assert_eq!(first.peer_access(first.peer()), Ok(PeerAccess::Direct));
}

pub(crate) fn what_is_no_device_is_no_peer(first: &Arc<dyn Driver>, _: &Arc<dyn Driver>) {
    for peer in [RawPeer(1 << 20), RawPeer(u64::MAX)] {
        let refused = first.peer_access(peer).expect_err("there is no such device");
        assert_eq!(refused.code(), ErrorCode::INVALID_DEVICE);
        assert!(!refused.is_sticky());
    }
}

/// A stream of one device waits for the other's work, copies, and is waited for: both ways, pulled and pushed.
pub(crate) fn copies_in_the_order_that_events_make(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    for (here, there) in [(first, second), (second, first)] {
        let (here, there) = (Rig::new(here), Rig::new(there));
        here.driver
            .peer_access(there.driver.peer())
            .expect("ask for access");
        let (s, owner) = (here.stream(), there.stream());
        let (written, copied) = (there.event(), here.event());
        let (ours, theirs) = (here.zeroed(4096, s), there.zeroed(4096, owner));
        // Slow, so that a copy that does not wait comes too early.
        there.step(theirs, SLOW, 0, 7, owner);
        there.record(written, owner);
        there.wait(s, written);
        copy(&here, (&here, ours), (&there, theirs), s);
        here.record(copied, s);
        here.wait(owner, copied);
        there.fill(theirs, &[9, 0, 0, 0], owner);
        assert_eq!(here.read_words(ours, s), [7; 1024], "pulled");
        assert_eq!(there.read_words(theirs, owner), [9; 1024]);

        here.step(ours, SLOW, 1, 1, s);
        there.record(written, owner);
        there.wait(s, written);
        copy(&here, (&there, theirs), (&here, ours), s);
        here.record(copied, s);
        here.wait(owner, copied);
        assert_eq!(there.read_words(theirs, owner), [8; 1024], "pushed");
    }
}

pub(crate) fn copies_at_odd_offsets_and_lengths(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = (Rig::new(first), Rig::new(second));
    here.driver
        .peer_access(there.driver.peer())
        .expect("ask for access");
    let (s, owner) = (here.stream(), there.stream());
    let bytes = 70_000;
    let values = numbered(bytes);
    let source = there.host_with(&values);
    let theirs = there.block(bytes, owner);
    there.upload(theirs, source, owner);
    there.synchronize(owner);
    for (to, from, len) in [(0, 0, 1), (1, 3, 257), (255, 13, 4099), (7, 4096, 65_537)] {
        let ours = here.zeroed(bytes, s);
        copy(
            &here,
            (&here, ours.part(to, len)),
            (&there, theirs.part(from, len)),
            s,
        );
        let mut expected = vec![0; bytes];
        expected[to..][..len].copy_from_slice(&values[from..][..len]);
        assert!(
            here.read(ours, s) == expected,
            "to {to}, from {from}, length {len}"
        );
    }
}

pub(crate) fn a_copy_of_nothing_does_nothing(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let here = Rig::new(first);
    here.driver.peer_access(second.peer()).expect("ask for access");
    let stream = here.stream();
    let (to, from) = (
        (first.peer(), DeviceAddress(8)),
        (second.peer(), DeviceAddress(8)),
    );
    // SAFETY: nothing is read or written, so that any address does.
    unsafe { first.copy_peer(to, from, 0, stream) }.expect("nothing to do");
    here.synchronize(stream);
}

/// What the pool gives out after access was asked for is reached too.
pub(crate) fn access_is_to_later_allocations_too(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = (Rig::new(first), Rig::new(second));
    let (s, owner) = (here.stream(), there.stream());
    let early = there.zeroed(1 << 20, owner);
    here.driver
        .peer_access(there.driver.peer())
        .expect("ask for access");
    // More than was there, so that the pool grows.
    let bytes = if there.is_cuda() { 64 << 20 } else { 2 << 20 };
    let late = there.zeroed(bytes, owner);
    there.synchronize(owner);
    for theirs in [early, late.part(bytes - (1 << 20), 1 << 20)] {
        let ours = here.block(1 << 20, s);
        here.fill(ours, &[1], s);
        copy(&here, (&here, ours), (&there, theirs), s);
        assert!(here.read(ours, s).iter().all(|byte| *byte == 0));
    }
}

/// The host sees an event of one device whose work waited for the other's.
pub(crate) fn the_host_waits_for_both(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = (Rig::new(first), Rig::new(second));
    here.driver
        .peer_access(there.driver.peer())
        .expect("ask for access");
    let (s, owner) = (here.stream(), there.stream());
    let (written, copied) = (there.event(), here.event());
    let (ours, theirs) = (here.zeroed(4096, s), there.zeroed(4096, owner));
    there.step(theirs, SLOW, 0, 5, owner);
    there.record(written, owner);
    there.wait(s, written);
    copy(&here, (&here, ours), (&there, theirs), s);
    here.record(copied, s);
    here.poll(copied);
    assert!(there.query(written), "the copy came after it");
    assert_eq!(here.read_words(ours, s), [5; 1024]);
}
