//! Blocks that the program keeps for their next owners.

use cuda_rt::driver::{DeviceAddress, RawStream};

use crate::check::{named, races};
use crate::rig::Rig;

fn order(rig: &Rig, first: RawStream, then: RawStream) {
    let event = rig.event();
    rig.record_event(event, first).unwrap();
    rig.wait_event(then, event).unwrap();
}

/// The program, and not the driver, orders the owners of a block that is kept for reuse.
#[test]
fn a_block_that_is_reused_by_another_stream_must_be_ordered() {
    let program = |rig: &Rig, ordered: bool| {
        let (s, t) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, s).unwrap();
        rig.fill(data, &[1], 64, s).unwrap();
        rig.note_free(data, s).unwrap();
        if ordered {
            order(rig, s, t);
        }
        rig.note_alloc(data, t).unwrap();
        rig.fill(data, &[2], 64, t).unwrap();
    };
    let found = races(|rig| program(rig, false));
    assert_eq!(named(&found)[0], ("free", "alloc"));
    assert!(races(|rig| program(rig, true)).is_empty());
}

/// A use of the last owner behind the free, on another stream.
#[test]
fn a_use_of_a_block_that_is_kept_for_reuse_is_reported() {
    let found = races(|rig| {
        let (s, t) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, s).unwrap();
        order(rig, s, t);
        rig.note_free(data, s).unwrap();
        rig.fill(data, &[2], 64, t).unwrap();
    });
    assert_eq!(named(&found), [("free", "fill")]);
}

/// A block that is kept for its next owner is junk for it, and keeps no bytes for the last one.
#[test]
fn a_block_that_is_kept_for_reuse_is_junk() {
    for seed in 0..8 {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let data = rig.alloc(64, s).unwrap();
        let other = rig.alloc(64, s).unwrap();
        let note = |free: bool, address| match free {
            true => rig.note_free(address, s),
            false => rig.note_alloc(address, s),
        };
        let mut seen = Vec::new();
        for free in [true, false] {
            rig.fill(data, &[5], 64, s).unwrap();
            note(free, data).unwrap();
            seen.push(rig.read(data, 16, s));
            assert!(note(free, data).is_err(), "twice");
        }
        assert!(seen.iter().flatten().all(|word| *word != 0x0505_0505));
        assert_ne!(seen[0], seen[1]);
        // Nothing else may be noted: it has an owner, or is no block.
        assert!(note(false, other).is_err());
        assert!(note(true, DeviceAddress(data.0 + 8)).is_err());
        // What is kept may be freed.
        note(true, data).unwrap();
        rig.free(data, s).unwrap();
        assert!(note(false, data).is_err());
    }
}
