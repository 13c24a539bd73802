//! The pairs of devices on which a test of work between devices runs.

pub(crate) mod faults;

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, OpenError, Scoped};

/// Number of adversarial orders of each kind in which each test runs.
const SEEDS: u64 = 16;

/// Runs `body` on two simulated devices, for each of several seeds, orders and links, and on two
/// GPUs. A single GPU plays both devices, as two instances. Without a GPU it prints a message; with
/// `CUDA_RT_REQUIRE_GPU=1` that is a failure.
pub(crate) fn for_each_pair(body: impl for<'a, 'b> Fn(&Device<Scoped<'a>>, &Device<Scoped<'b>>)) {
    for seed in 0..SEEDS {
        for order in [Order::Random, Order::Lazy] {
            let config = SimConfig::new().seed(seed).order(order).peer_access(seed % 4 > 0);
            Device::simulated(config, |first| {
                first.simulated_peer(|second| body(&first, &second))
            })
            .unwrap()
            .unwrap();
        }
    }
    let both = |second: usize| {
        Device::with_gpu(0, |first| {
            Device::with_gpu(second, |second| body(&first, &second))
        })
    };
    match both(1) {
        Ok(Ok(())) => eprintln!("run on two GPUs"),
        Ok(Err(OpenError::NoGpu(_))) => {
            eprintln!("ONE GPU ONLY: it is both devices");
            both(0).unwrap().unwrap();
        }
        Ok(Err(error)) => panic!("the second GPU: {error}"),
        Err(error) => {
            assert!(
                std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
                "CUDA_RT_REQUIRE_GPU is set, and {error}"
            );
            eprintln!("SKIPPED ON CUDA: {error}");
        }
    }
}
