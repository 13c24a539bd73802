//! Computes batches on the first GPU, or on the simulated device if there is none, and compares the
//! results with the CPU's.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use program::{Batch, sums};

const BATCHES: usize = 8;
const LEN: usize = 1 << 18;
const A: f32 = 2.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let batch = |number: usize| Batch {
        x: (0..LEN).map(|i| i as f32).collect(),
        y: vec![number as f32; LEN],
    };
    let batches: Vec<Batch> = (0..BATCHES).map(batch).collect();

    let gpu = Device::open_or_simulate()?;
    let sums = sums(&gpu, A, &batches)?;

    let pairs = batches.iter().zip(&sums);
    let right = pairs
        .filter(|(batch, sums)| batch.expected(A) == **sums)
        .count();
    println!(
        "{}: {right} of {BATCHES} batches are right",
        gpu.properties().name
    );
    if right != BATCHES {
        return Err("the device and the CPU differ".into());
    }
    Ok(())
}
