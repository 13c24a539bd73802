//! The devices on which a test of the typed API runs.

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Scoped};

mod cases;

/// Number of adversarial orders in which each test runs.
const SEEDS: u64 = 24;

/// Runs `body` on a simulated device for each of several seeds.
pub(crate) fn for_each_simulated_device(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for seed in 0..cases::at_most(SEEDS) {
        Device::simulated(SimConfig::default().seed(seed), |gpu| body(&gpu)).unwrap();
    }
}

/// Runs `body` on a simulated device for each of several seeds, and on every GPU. Without a GPU it
/// prints a message; with `CUDA_RT_REQUIRE_GPU=1` that is a failure.
pub(crate) fn for_each_device(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for_each_simulated_device(&body);
    let gpus = Device::for_each_gpu(|gpu| body(&gpu)).unwrap().len();
    if gpus == 0 {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
    }
}
