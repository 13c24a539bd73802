//! Two devices: access, copies, and streams of one that wait for events of the other.

use std::sync::Arc;

use cuda_rt::driver::{
    Backend, Collective, Communicator, DeviceAddress, Driver, ErrorCode, Number, Part, PeerAccess, RawPeer,
    RawStream, Reduction,
};
use cuda_rt::kernel::Extent;

use crate::fixtures::CRASH;
use crate::support::{Block, Rig, SLOW, shape};

/// Copies from a block of one rig to a block of the other; one of the rigs is `here`.
#[track_caller]
fn copy(here: &Rig, to: (&Rig, Block), from: (&Rig, Block), stream: RawStream) {
    assert_eq!(to.1.bytes, from.1.bytes);
    let (target, source) = (
        (to.0.driver.peer(), to.1.address),
        (from.0.driver.peer(), from.1.address),
    );
    // SAFETY: both blocks are live and in bounds. By the suite's convention the case orders the
    // copy.
    unsafe { here.driver.copy_peer(target, source, to.1.bytes, stream) }.expect("copy between devices");
}

/// A rig of each device; the first device has access to the second.
#[track_caller]
fn rigs_with_access(here: &Arc<dyn Driver>, there: &Arc<dyn Driver>) -> (Rig, Rig) {
    let (here, there) = (Rig::new(here), Rig::new(there));
    here.driver
        .peer_access(there.driver.peer())
        .expect("ask for access");
    (here, there)
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

pub(crate) fn an_invalid_peer_is_refused(first: &Arc<dyn Driver>, _: &Arc<dyn Driver>) {
    for peer in [RawPeer(1 << 20), RawPeer(u64::MAX)] {
        let refused = first.peer_access(peer).expect_err("there is no such device");
        assert_eq!(refused.code(), ErrorCode::INVALID_DEVICE);
        assert!(!refused.is_sticky());
    }
}

/// A stream of one device waits for the other's work, copies, and is waited for. Both directions,
/// with the copy on the source's device and on the destination's.
pub(crate) fn copies_in_the_order_that_events_make(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    for (here, there) in [(first, second), (second, first)] {
        let (here, there) = rigs_with_access(here, there);
        let (s, owner) = (here.stream(), there.stream());
        let (written, copied) = (there.event(), here.event());
        let (ours, theirs) = (here.zeroed(4096, s), there.zeroed(4096, owner));
        // Slow, so that a copy that does not wait runs too early.
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

/// A kernel of one device traps after the other was told to copy its output. Then no call says that
/// the copy is done, on either device (obligation 16).
pub(crate) fn a_trap_reaches_the_device_that_copies(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = rigs_with_access(first, second);
    let (s, owner) = (here.stream(), there.stream());
    let (written, copied) = (there.event(), here.event());
    let (ours, theirs) = (here.zeroed(4096, s), there.zeroed(4096, owner));
    here.synchronize(s);
    // Slow, so that the copy is enqueued before the trap.
    there.step(theirs, SLOW, 0, 7, owner);
    let extent = Extent { x: 1, y: 1, z: 1 };
    let parameters = [std::ptr::from_ref(&extent).cast()];
    // A device that runs its work early returns the error from one of these calls.
    // SAFETY: the parameters are the kernel's; the rigs keep all handles and blocks live.
    let _ = unsafe { second.launch(&CRASH, &shape(extent), &parameters, owner) };
    // SAFETY: as above.
    let _ = unsafe { second.record_event(written, owner) };
    // SAFETY: as above; the event is of a device of this backend.
    let _ = unsafe { first.wait_event(s, written) };
    // SAFETY: as above; both blocks have 4,096 bytes, and the wait orders the copy.
    let _ = unsafe {
        first.copy_peer(
            (first.peer(), ours.address),
            (second.peer(), theirs.address),
            4096,
            s,
        )
    };
    // SAFETY: as above.
    let _ = unsafe { first.record_event(copied, s) };

    // SAFETY: as above.
    let event = unsafe { first.synchronize_event(copied) };
    // SAFETY: as above.
    let ours = unsafe { first.synchronize_stream(s) };
    // SAFETY: as above.
    let theirs = unsafe { second.synchronize_stream(owner) };
    for (wait, result) in [
        ("the event", event),
        ("our stream", ours),
        ("their stream", theirs),
    ] {
        let error = result.expect_err(wait);
        assert!(error.is_sticky(), "{wait}: {error}");
    }
}

pub(crate) fn copies_at_odd_offsets_and_lengths(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = rigs_with_access(first, second);
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
    // SAFETY: the call reads and writes nothing, so any address will do.
    unsafe { first.copy_peer(to, from, 0, stream) }.expect("nothing to do");
    here.synchronize(stream);
}

/// Access includes memory that the pool gives out later.
pub(crate) fn access_is_to_later_allocations_too(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = (Rig::new(first), Rig::new(second));
    let (s, owner) = (here.stream(), there.stream());
    let early = there.zeroed(1 << 20, owner);
    here.driver
        .peer_access(there.driver.peer())
        .expect("ask for access");
    // More than the pool holds, so that the pool grows.
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

/// Kernels, fills and copies of one device reach the other's memory in place, in the order that
/// events make.
pub(crate) fn kernels_reach_the_memory_of_a_peer(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    for (here, there) in [(first, second), (second, first)] {
        if here.peer_access(there.peer()).expect("ask for access") == PeerAccess::Staged {
            eprintln!("NO LINK between the devices");
            return;
        }
        let (here, there) = (Rig::new(here), Rig::new(there));
        let (s, owner) = (here.stream(), there.stream());
        let (written, used) = (there.event(), here.event());
        let theirs = there.zeroed(40_000, owner);
        let ours = here.zeroed(40_000, s);
        there.step(theirs, SLOW, 0, 7, owner);
        there.record(written, owner);
        there.wait(s, written);
        here.step(theirs, 10_000, 2, 1, s);
        here.copy(ours, theirs, s);
        here.fill(theirs.part(4, 8), &[1, 0, 0, 0], s);
        here.record(used, s);
        here.wait(owner, used);
        there.step(theirs, 10_000, 10, 3, owner);
        let words = there.read_words(theirs, owner);
        assert_eq!(words[..4], [153, 13, 13, 153]);
        assert!(words[4..].iter().all(|word| *word == 153));
        assert_eq!(here.read_words(ours, s), [15; 10_000]);

        // In a graph, at each launch.
        here.begin_capture(s);
        here.step(theirs, 10_000, 1, 1, s);
        let graph = here.end_capture(s).expect("a graph");
        here.launch_graph(graph, s);
        here.launch_graph(graph, s);
        here.synchronize(s);
        assert_eq!(there.read_words(theirs, owner)[0], 155);
        here.destroy_graph(graph);
    }
}

/// A copy between devices whose own side is host memory that the device reaches. It arrives, or it
/// is refused; it never loses the device.
pub(crate) fn copies_between_a_peer_and_host_memory(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = rigs_with_access(first, second);
    let (s, owner) = (here.stream(), there.stream());
    let values = numbered(4099);
    let theirs = there.block(4099, owner);
    there.upload(theirs, there.host_with(&values), owner);
    there.synchronize(owner);
    let host = here.host_with(&[0; 4099]);
    let address = first.mapped_address(host.address).expect("mapped");
    let (to, from) = ((first.peer(), address), (second.peer(), theirs.address));
    // SAFETY: both ranges are live and in bounds, and nothing else uses them.
    match unsafe { first.copy_peer(to, from, 4099, s) } {
        Ok(()) => {
            here.synchronize(s);
            assert!(host.read() == values);
        }
        Err(error) => {
            eprintln!("REFUSED: {error}");
            assert!(!error.is_sticky(), "{error}");
            here.synchronize(s);
        }
    }
}

/// The host sees an event of one device whose work waited for the other's.
pub(crate) fn the_host_waits_for_both(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let (here, there) = rigs_with_access(first, second);
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

/// A communicator of the two devices; prints a message and returns `None` where GPUs cannot form
/// one.
fn ranks(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) -> Option<Box<dyn Communicator>> {
    let is_cuda = first.properties().backend == Backend::Cuda;
    if first.peer() == second.peer() {
        eprintln!("SKIPPED ON CUDA: one GPU is no two ranks");
        return None;
    }
    for (one, other) in [(first, second), (second, first)] {
        one.peer_access(other.peer()).expect("ask for access");
    }
    match first.communicator(&[first.peer(), second.peer()]) {
        Ok(ranks) => Some(ranks),
        Err(error) if is_cuda && !cfg!(feature = "nccl") => {
            eprintln!("SKIPPED ON CUDA: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs collectives one after another: each in the order of each rank's stream, on data that the
/// stream wrote before.
pub(crate) fn collectives_of_two_ranks(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let Some(ranks) = ranks(first, second) else { return };
    let (here, there) = (Rig::new(first), Rig::new(second));
    let (s, t) = (here.stream(), there.stream());
    let (a, b) = (here.zeroed(8192, s), there.zeroed(8192, t));
    let (halves_a, halves_b) = (
        (a.part(0, 4096), a.part(4096, 4096)),
        (b.part(0, 4096), b.part(4096, 4096)),
    );
    let run = |collective, number, count, send: [Block; 2], receive: [Block; 2]| {
        let part = |stream, send: Block, receive: Block| Part {
            stream,
            send: send.address,
            receive: receive.address,
        };
        let parts = [part(s, send[0], receive[0]), part(t, send[1], receive[1])];
        // SAFETY: the ranges are live and in bounds. By the suite's convention the two streams
        // order them.
        unsafe { ranks.enqueue(collective, number, count, &parts) }.expect("enqueue a collective");
        // A collective uses a rank's memory until the parts of all ranks have ended.
        let ends = [here.event(), there.event()];
        here.record(ends[0], s);
        there.record(ends[1], t);
        here.wait(s, ends[1]);
        there.wait(t, ends[0]);
    };
    // Slow, so that work that does not wait runs too early.
    here.step(halves_a.0, SLOW, 0, 3, s);
    there.fill(halves_b.0, &[4, 0, 0, 0], t);
    let (whole, left, right) = ([a, b], [halves_a.0, halves_b.0], [halves_a.1, halves_b.1]);
    run(
        Collective::AllReduce(Reduction::Sum),
        Number::U32,
        1024,
        left,
        right,
    );
    assert_eq!(
        here.read_words(a, s),
        [[3; 1024], [7; 1024]].concat(),
        "all-reduce"
    );
    assert_eq!(
        there.read_words(b, t),
        [[4; 1024], [7; 1024]].concat(),
        "all-reduce"
    );
    let parted = [here.zeroed(4096, s), there.zeroed(4096, t)];
    run(
        Collective::ReduceScatter(Reduction::Max),
        Number::U32,
        1024,
        whole,
        parted,
    );
    assert_eq!(here.read_words(parted[0], s), [4; 1024], "reduce-scatter");
    assert_eq!(there.read_words(parted[1], t), [7; 1024], "reduce-scatter");
    run(
        Collective::Broadcast { root: 0 },
        Number::U8,
        4096,
        parted,
        parted,
    );
    assert_eq!(there.read_words(parted[1], t), [4; 1024], "broadcast in place");
    there.fill(parted[1], &[9, 0, 0, 0], t);
    let gathered = [here.zeroed(8192, s), there.zeroed(8192, t)];
    run(Collective::AllGather, Number::U32, 1024, parted, gathered);
    here.fill(parted[0], &[0], s);
    let expected = [[4; 1024], [9; 1024]].concat();
    assert_eq!(here.read_words(gathered[0], s), expected, "all-gather");
    assert_eq!(there.read_words(gathered[1], t), expected, "all-gather");
    ranks.status().expect("all is well");
}

pub(crate) fn a_communicator_that_was_aborted(first: &Arc<dyn Driver>, second: &Arc<dyn Driver>) {
    let Some(ranks) = ranks(first, second) else { return };
    ranks.abort();
    ranks.abort();
    assert_eq!(
        ranks.status().expect_err("it was aborted").code(),
        ErrorCode::NCCL_INVALID_USAGE
    );
    let (here, there) = (Rig::new(first), Rig::new(second));
    let (s, t) = (here.stream(), there.stream());
    let part = |stream, block: Block| Part {
        stream,
        send: block.address,
        receive: block.address,
    };
    let parts = [part(s, here.zeroed(64, s)), part(t, there.zeroed(64, t))];
    // SAFETY: the ranges are live and in bounds, and the call is refused.
    let refused = unsafe { ranks.enqueue(Collective::AllGather, Number::U8, 1, &parts) };
    assert_eq!(
        refused.expect_err("it was aborted").code(),
        ErrorCode::NCCL_INVALID_USAGE
    );
}
