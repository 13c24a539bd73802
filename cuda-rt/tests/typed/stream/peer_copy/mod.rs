//! Copies between two devices, in the order that handoffs make.
#![forbid(unsafe_code)]

mod attacks;
mod faults;

use cuda_rt::checker::Check;
use cuda_rt::driver::PeerAccess;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Handoff, Idle, Live, Result, Stream};

use crate::pairs::for_each_pair;

cuda_rt::streams! {
    Compute;
    Copies;
    Other;
}

const LEN: usize = 257;

/// The contents of a buffer after all its work.
fn contents<D: Live>(
    gpu: &Device<D>,
    stream: &Stream<Compute<D>>,
    buffer: Handoff<DeviceBuffer<u32, Idle<D>>>,
) -> Vec<u32> {
    let buffer = stream.acquire(buffer).unwrap();
    let mut host = stream.adopt(gpu.pinned(buffer.len()).unwrap()).unwrap();
    stream.copy_to_host(&buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

/// The stream that copies between the devices, and the stream of the memory of the other device.
fn copies_and_owner<D: Live, E: Live>(
    here: &Device<D>,
    there: &Device<E>,
) -> (Stream<Copies<D>>, Stream<Compute<E>>) {
    (
        here.stream::<Copies<_>>().unwrap(),
        there.stream::<Compute<_>>().unwrap(),
    )
}

/// A handoff of a buffer that its stream filled.
fn filled<D: Live>(stream: &Stream<Compute<D>>, value: u32) -> Result<Handoff<DeviceBuffer<u32, Idle<D>>>> {
    let mut buffer = stream.alloc_zeroed::<u32>(LEN)?;
    stream.fill(&mut buffer, value)?;
    stream.release(buffer)
}

/// The owner overwrites the source as soon as it gets the source back. Without a wait, that is
/// before the copy has run.
#[test]
fn h37_a_copy_from_a_peer_is_ordered_on_both_sides() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let compute = here.stream::<Compute<_>>().unwrap();
        let source = filled(&owner, 7).unwrap();
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies.copy_from_peer(source, .., &mut ours).unwrap();
        let mut source = owner.acquire(source).unwrap();
        owner.fill(&mut source, 8).unwrap();
        let ours = copies.release(ours).unwrap();
        assert_eq!(contents(here, &compute, ours), [7; LEN]);
        let source = owner.release(source).unwrap();
        assert_eq!(contents(there, &owner, source), [8; LEN]);
        assert!(here.races().is_empty() && there.races().is_empty());
    });
}

#[test]
fn h37_a_copy_to_a_peer_is_ordered_on_both_sides() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let target = filled(&owner, 1).unwrap();
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        copies.fill(&mut ours, 9).unwrap();
        let target = copies.copy_to_peer(&ours, target, ..).unwrap();
        copies.fill(&mut ours, 10).unwrap();
        assert_eq!(contents(there, &owner, target), [9; LEN]);
        assert!(here.races().is_empty());
    });
}

/// Each half of a buffer is copied separately; each copy waits for the fences of the copy before
/// it.
#[test]
fn copies_between_ranges_of_two_devices_write_those_ranges_only() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let compute = here.stream::<Compute<_>>().unwrap();
        let mut source = owner.alloc_zeroed::<u32>(LEN).unwrap();
        owner.fill(&mut source[..100], 1).unwrap();
        owner.fill(&mut source[100..], 2).unwrap();
        let source = owner.release(source).unwrap();
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies.copy_from_peer(source, 90..110, &mut ours[..20]).unwrap();
        let source = copies
            .copy_from_peer(source, LEN - 1.., &mut ours[LEN - 1..])
            .unwrap();
        let source = copies.copy_to_peer(&ours[5..15], source, ..=9).unwrap();
        let mut expected = [[1; 10], [2; 10]].concat();
        expected.resize(LEN - 1, 0);
        expected.push(2);
        let ours = copies.release(ours).unwrap();
        assert_eq!(contents(here, &compute, ours), expected);
        let mut expected = [[1; 5], [2; 5]].concat();
        expected.resize(100, 1);
        expected.resize(LEN, 2);
        assert_eq!(contents(there, &owner, source), expected);
    });
}

/// Both directions at once, then a second round in which the received data goes out.
#[test]
fn both_devices_copy_at_once_for_several_rounds() {
    for_each_pair(|a, b| {
        let (copy_a, copy_b) = (a.stream::<Copies<_>>().unwrap(), b.stream::<Copies<_>>().unwrap());
        let (compute_a, compute_b) = (
            a.stream::<Compute<_>>().unwrap(),
            b.stream::<Compute<_>>().unwrap(),
        );
        let (mut of_a, mut of_b) = (filled(&compute_a, 1).unwrap(), filled(&compute_b, 2).unwrap());
        for _ in 0..3 {
            let mut to_a = copy_a.alloc_zeroed::<u32>(LEN).unwrap();
            let mut to_b = copy_b.alloc_zeroed::<u32>(LEN).unwrap();
            let old = (
                copy_a.copy_from_peer(of_b, .., &mut to_a).unwrap(),
                copy_b.copy_from_peer(of_a, .., &mut to_b).unwrap(),
            );
            // Freed after the other device's copies.
            drop(old);
            of_a = copy_a.release(to_a).unwrap();
            of_b = copy_b.release(to_b).unwrap();
        }
        assert_eq!(contents(a, &compute_a, of_a), [2; LEN]);
        assert_eq!(contents(b, &compute_b, of_b), [1; LEN]);
        assert!(a.races().is_empty());
    });
}

#[test]
fn a_source_dropped_under_the_copy_is_freed_behind_it_on_its_own_device() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let compute = here.stream::<Compute<_>>().unwrap();
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        drop(
            copies
                .copy_from_peer(filled(&owner, 3).unwrap(), .., &mut ours)
                .unwrap(),
        );
        // If memory was freed early, this buffer gets the same memory.
        let next = filled(&owner, 4).unwrap();
        let ours = copies.release(ours).unwrap();
        assert_eq!(contents(here, &compute, ours), [3; LEN]);
        assert_eq!(contents(there, &owner, next), [4; LEN]);
        if let Some(simulator) = there.simulator() {
            copies.synchronize().unwrap();
            owner.synchronize().unwrap();
            let left = simulator.counters();
            assert_eq!(left.allocations_live - left.blocks_free, 0);
        }
    });
}

/// The destination is dropped during the copy: it is freed in the order of the copying stream.
#[test]
fn a_destination_dropped_under_the_copy_is_freed_after_it() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies
            .copy_from_peer(filled(&owner, 3).unwrap(), .., &mut ours)
            .unwrap();
        drop(ours);
        let target = copies
            .copy_to_peer(&copies.alloc_zeroed::<u32>(LEN).unwrap(), source, ..)
            .unwrap();
        assert_eq!(contents(there, &owner, target), [0; LEN]);
        assert!(here.races().is_empty());
    });
}

#[test]
fn h22_memory_leaked_under_a_copy_is_the_only_leak() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies
            .copy_from_peer(filled(&owner, 3).unwrap(), .., &mut ours)
            .unwrap();
        std::mem::forget(source);
        std::mem::forget(ours);
        let next = filled(&owner, 5).unwrap();
        assert_eq!(contents(there, &owner, next), [5; LEN]);
        copies.synchronize().unwrap();
        if let Some(simulator) = there.simulator() {
            owner.synchronize().unwrap();
            let left = simulator.counters();
            assert_eq!(left.allocations_live - left.blocks_free, 2);
        }
    });
}

#[test]
fn lengths_are_checked_before_anything_is_enqueued() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let mut ours = copies.alloc_zeroed::<u32>(8).unwrap();
        let source = filled(&owner, 3).unwrap();
        let before = here.simulator().map(|simulator| simulator.counters());
        let refused = copies.try_copy_from_peer(source, 1..10, &mut ours).unwrap_err();
        assert!(
            matches!(
                refused.error,
                Error::LengthMismatch {
                    during: "Stream::copy_from_peer",
                    source_len: 9,
                    destination_len: 8
                }
            ),
            "{}",
            refused.error
        );
        let refused = copies.try_copy_to_peer(&ours, refused.value, ..7).unwrap_err();
        assert!(
            matches!(
                refused.error,
                Error::LengthMismatch {
                    during: "Stream::copy_to_peer",
                    source_len: 8,
                    destination_len: 7
                }
            ),
            "{}",
            refused.error
        );
        assert_eq!(before, here.simulator().map(|simulator| simulator.counters()));
        assert_eq!(contents(there, &owner, refused.value), [3; LEN]);
    });
}

#[test]
fn an_empty_copy_makes_no_call() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let mut ours = copies.alloc_zeroed::<u32>(0).unwrap();
        let source = filled(&owner, 3).unwrap();
        let before = here.simulator().map(|simulator| simulator.counters());
        let source = copies.copy_from_peer(source, LEN.., &mut ours).unwrap();
        let source = copies.copy_to_peer(&ours, source, 5..5).unwrap();
        assert_eq!(before, here.simulator().map(|simulator| simulator.counters()));
        let empty = owner.release(owner.alloc_zeroed::<u32>(0).unwrap()).unwrap();
        let empty = copies.copy_from_peer(empty, .., &mut ours).unwrap();
        assert!(owner.acquire(empty).unwrap().is_empty());
        assert_eq!(contents(there, &owner, source), [3; LEN]);
    });
}

/// A device is its own peer: a copy like any other, with a handoff.
#[test]
fn a_device_copies_from_itself() {
    for_each_pair(|here, _| {
        let (copies, owner) = copies_and_owner(here, here);
        assert_eq!(here.peer_access(here).unwrap(), PeerAccess::Direct);
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies
            .copy_from_peer(filled(&owner, 3).unwrap(), .., &mut ours)
            .unwrap();
        let mut source = owner.acquire(source).unwrap();
        owner.fill(&mut source, 4).unwrap();
        let ours = copies.release(ours).unwrap();
        assert_eq!(contents(here, &owner, ours), [3; LEN]);
    });
}

/// A third stream, on the copying device, may wait for the handoff, and threads pass it on.
#[test]
fn copies_of_two_threads_meet() {
    for_each_pair(|here, there| {
        let owner = there.stream::<Compute<_>>().unwrap();
        let (copies, other) = (
            here.stream::<Copies<_>>().unwrap(),
            here.stream::<Other<_>>().unwrap(),
        );
        let compute = here.stream::<Compute<_>>().unwrap();
        let (left, right) = {
            let mut whole = owner.alloc_zeroed::<u32>(2 * LEN).unwrap();
            owner.fill(&mut whole, 6).unwrap();
            let right = whole.split_off(LEN);
            owner.release((whole, right)).unwrap().split()
        };
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| {
                let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
                let left = copies.copy_from_peer(left, .., &mut ours).unwrap();
                (left, copies.release(ours).unwrap())
            });
            let right = scope.spawn(|| {
                let mut ours = other.alloc_zeroed::<u32>(LEN).unwrap();
                let right = other.copy_from_peer(right, .., &mut ours).unwrap();
                (right, other.release(ours).unwrap())
            });
            (left.join().unwrap(), right.join().unwrap())
        });
        let (left_there, right_there) = owner.acquire(Handoff::join((left.0, right.0))).unwrap();
        let mut whole = left_there.join(right_there).unwrap();
        owner.fill(&mut whole, 7).unwrap();
        assert_eq!(contents(here, &compute, left.1), [6; LEN]);
        assert_eq!(contents(here, &compute, right.1), [6; LEN]);
        assert!(here.races().is_empty());
    });
}

#[test]
fn the_host_waits_for_a_copy_through_either_side() {
    for_each_pair(|here, there| {
        let (copies, owner) = copies_and_owner(here, there);
        let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
        let source = copies
            .copy_from_peer(filled(&owner, 3).unwrap(), .., &mut ours)
            .unwrap();
        let source = source.synchronize().unwrap();
        if let Some(simulator) = here.simulator() {
            assert_eq!(simulator.counters().bytes_between_devices, 4 * LEN as u64);
        }
        drop(owner.adopt(source).unwrap());
    });
}

#[test]
fn a_device_tells_whether_copies_are_direct() {
    for direct in [true, false] {
        Device::simulated(SimConfig::new().peer_access(direct), |one| {
            one.simulated_peer(|other| {
                let expected = if direct {
                    PeerAccess::Direct
                } else {
                    PeerAccess::Staged
                };
                assert_eq!(one.peer_access(&other).unwrap(), expected);
                assert_eq!(other.peer_access(&one).unwrap(), expected);
            })
        })
        .unwrap()
        .unwrap();
    }
}

/// Modelled: a staged copy takes longer by the ratio of the rates, and the two devices have
/// separate engines.
#[test]
fn copies_take_the_time_of_their_link() {
    use cuda_rt::timeline::Engine;
    let busy_ns = |direct| {
        Device::simulated(SimConfig::new().peer_access(direct).check(Check::Off), |one| {
            one.simulated_peer(|other| {
                const LEN: usize = 1 << 20;
                let (copies, owner) = (
                    one.stream::<Copies<_>>().unwrap(),
                    other.stream::<Compute<_>>().unwrap(),
                );
                let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
                let source = owner.release(owner.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
                drop(copies.copy_from_peer(source, .., &mut ours).unwrap());
                let simulators = [one.simulator().unwrap(), other.simulator().unwrap()];
                simulators.map(|simulator| simulator.busy_ns(Engine::Peer))
            })
        })
        .unwrap()
        .unwrap()
    };
    let bytes = 4.0 * (1 << 20) as f64;
    assert_eq!(busy_ns(true), [1000 + (bytes / 396.0) as u64, 0]);
    assert_eq!(busy_ns(false), [1000 + (bytes / 38.0) as u64, 0]);
}
