//! The devices on which a test runs, and random numbers.

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Scoped};
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! { pub Compute; pub Other; }

/// Orders of the simulated device in which each test runs.
const SEEDS: u64 = 4;

/// Runs `body` on a simulated device for each of several seeds, and on every GPU with cuFFT.
/// Without a GPU it prints a message; with `CUDA_RT_REQUIRE_GPU=1` that is a failure.
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) fn for_each_device(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for seed in 0..SEEDS {
        Device::simulated(SimConfig::default().seed(seed), |gpu| body(&gpu)).unwrap();
    }
    for_each_gpu(body);
}

/// Runs `body` on every GPU with cuFFT.
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) fn for_each_gpu(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    let missing = std::cell::Cell::new(None);
    let gpus = Device::for_each_gpu(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        match Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(8)) {
            Err(error @ FftError::Library { .. }) => missing.set(Some(error.to_string())),
            _ => body(&gpu),
        }
    });
    let why = match gpus.unwrap().len() {
        0 => Some("there is no GPU".to_owned()),
        _ => missing.take(),
    };
    if let Some(why) = why {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and {why}"
        );
        eprintln!("SKIPPED ON CUDA: {why}");
    }
}

/// Random numbers (xorshift64*).
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) struct Random(u64);

#[allow(dead_code, reason = "not each test binary uses everything")]
impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % end
    }

    pub(crate) fn from(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A small number with few bits, which each type of floats has.
    pub(crate) fn small(&mut self) -> f64 {
        self.below(9) as f64 - 4.0
    }
}
