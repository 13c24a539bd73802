//! The program on the simulated device, in many orders and with a failing call. Needs no GPU.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use program::{Batch, sums};

const A: f32 = 3.0;

/// Batches of different lengths. No batch has the numbers of another.
fn batches() -> Vec<Batch> {
    let batch = |(number, len): (usize, usize)| Batch {
        x: (0..len).map(|i| i as f32).collect(),
        y: (0..len).map(|i| (1000 * number + i) as f32).collect(),
    };
    [1, 31, 256, 1000, 7]
        .into_iter()
        .enumerate()
        .map(batch)
        .collect()
}

/// The streams' work runs in an order that CUDA allows, and the seed chooses the order. The same
/// seed gives the same order again.
#[test]
fn the_results_are_right_in_any_order() {
    let batches = batches();
    let expected: Vec<_> = batches.iter().map(|batch| batch.expected(A)).collect();
    for seed in 0..100 {
        let config = SimConfig::default().seed(seed);
        let computed = Device::simulated(config, |gpu| sums(&gpu, A, &batches));
        let computed = computed
            .expect("a simulated device")
            .expect("no call fails");
        assert!(computed == expected, "seed {seed}");
    }
}

/// The third launch fails. Its error reaches the caller, and the device works afterwards.
#[test]
fn a_failed_launch_is_reported() {
    let batches = batches();
    let result = Device::simulated(SimConfig::default().seed(1), |gpu| {
        let simulator = gpu.simulator().expect("it is simulated");
        simulator.fail_nth(Call::Launch, 3, ErrorCode::LAUNCH_OUT_OF_RESOURCES);
        let error = sums(&gpu, A, &batches).expect_err("a launch fails");
        assert_eq!(simulator.pending_faults(), 0, "the fault happened");
        assert!(
            error.to_string().contains("LAUNCH_OUT_OF_RESOURCES"),
            "{error}"
        );
        sums(&gpu, A, &batches)
    });
    let computed = result.expect("a simulated device").expect("no call fails");
    assert_eq!(computed.len(), batches.len());
}
