//! Tests that the stages overlap, by the simulated device's clock.
#![forbid(unsafe_code)]

use std::io;

use crate::common::{overlapped, stream_420};
use cuda_rt::Device;
use cuda_rt::simulator::{Model, SimConfig};
use cuda_rt_examples::denoise::report::Pass;

const FRAMES: u64 = 200;
const STAGE_NS: f64 = 100_000.0;
const SAMPLES: f64 = 32.0 * 16.0;

/// A device on which upload, kernel and download of a frame take 0.1 ms each, and calls take almost
/// no time.
fn balanced(buffers: usize) -> Pass {
    let model = Model {
        to_device_gb_per_s: SAMPLES / STAGE_NS,
        to_host_gb_per_s: SAMPLES / STAGE_NS,
        copy_latency_ns: 0,
        kernel_floor_ns: 0,
        ..Model::default()
    };
    let config = SimConfig::new()
        .model(model)
        .kernel_ns_per_thread("device_kernels::bilateral::bilateral", STAGE_NS / SAMPLES);
    Device::simulated(config, |gpu| {
        let clip = stream_420(32, 16, FRAMES);
        overlapped(&gpu, clip.as_slice(), io::sink(), buffers, |_| {}, &|_| {})
    })
    .expect("a device")
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn two_buffers_keep_all_three_engines_busy() {
    for buffers in 2..=4 {
        let pass = balanced(buffers);
        let ideal_ms = (FRAMES + 2) as f64 * STAGE_NS / 1e6;
        assert!(
            (pass.parts.kernel - FRAMES as f64 * STAGE_NS / 1e6).abs() < 0.1,
            "{pass:?}"
        );
        assert!(
            pass.wall_ms >= ideal_ms * 0.999 && pass.wall_ms < ideal_ms * 1.05,
            "{buffers} buffers: {pass:?}"
        );
    }
}

#[test]
fn one_buffer_makes_neighbouring_stages_take_turns() {
    let pass = balanced(1);
    let two_stages_ms = 2.0 * FRAMES as f64 * STAGE_NS / 1e6;
    assert!(pass.wall_ms > two_stages_ms * 0.95, "{pass:?}");
}
