//! Test of the memory of `denoise`: ten thousand frames take no more than a hundred.
#![forbid(unsafe_code)]

mod common;

use std::io;
use std::sync::Mutex;

use common::overlapped;
use cuda_rt::Device;
use cuda_rt::simulator::SimConfig;
use cuda_rt_examples::denoise::clip::NoisyClip;

const FRAMES: u64 = 10_000;
const BUFFERS: usize = 3;

/// The resident set of this process, in bytes; `None` if the system does not tell.
fn resident_bytes() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * 4096)
}

#[test]
fn memory_stays_flat_over_ten_thousand_frames() {
    let resident = Mutex::new(Vec::new());
    let progress = |frame: u64| {
        if frame.is_multiple_of(FRAMES / 10) {
            resident.lock().unwrap().push(resident_bytes());
        }
    };
    Device::simulated(SimConfig::default(), |gpu| {
        let clip = NoisyClip::new(32, 16, FRAMES, 1);
        let before = gpu.pinned_stats().blocks_mapped;
        let pass = overlapped(&gpu, clip, io::sink(), BUFFERS, |_| {}, &progress).unwrap();
        assert_eq!(pass.frames, FRAMES);
        let mapped = gpu.pinned_stats().blocks_mapped - before;
        assert_eq!(
            mapped,
            2 * BUFFERS,
            "page-locked blocks: only one ring on each side"
        );
    })
    .unwrap();
    let resident = resident.into_inner().unwrap();
    let (Some(Some(early)), Some(Some(late))) = (resident.get(1), resident.last()) else {
        eprintln!("SKIPPED: this system does not tell how much memory a process uses");
        return;
    };
    assert!(
        *late < early + (4 << 20),
        "grew from {early} to {late} bytes: {resident:?}"
    );
}
