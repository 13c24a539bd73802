//! NVIDIA's sample `simpleCUBLAS`: one product of matrices, compared with the CPU's.

#![forbid(unsafe_code)]

use clap::Parser;
use cuda_rt::{Device, Live};
use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, heading};
use cuda_rt_examples::on_device;

cuda_rt::streams! { Compute; }

/// Computes C = alpha·A·B + beta·C.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Rows and columns of each matrix.
    #[arg(long, default_value_t = 275, value_parser = clap::value_parser!(u16).range(1..=4096))]
    side: u16,
}

const ALPHA: f32 = 1.0;
const BETA: f32 = 0.5;

/// Numbers between 0 and 1.
fn numbers(len: usize, step: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * step) % 1009) as f32 / 1009.0).collect()
}

/// The largest difference from the CPU's result, relative to the largest element.
fn largest_difference(side: usize, a: &[f32], b: &[f32], c: &[f32], got: &[f32]) -> f32 {
    let (mut difference, mut largest) = (0.0_f32, 0.0_f32);
    for (row, line) in a.chunks_exact(side).enumerate() {
        for column in 0..side {
            let sum: f32 = line
                .iter()
                .enumerate()
                .map(|(at, x)| x * b[at * side + column])
                .sum();
            let place = row * side + column;
            let expected = ALPHA * sum + BETA * c[place];
            difference = difference.max((expected - got[place]).abs());
            largest = largest.max(expected.abs());
        }
    }
    difference / largest
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    let side = usize::from(args.side);
    let [a, b, c] = [7, 11, 13].map(|step| numbers(side * side, step));

    let compute = gpu.stream::<Compute<D>>()?;
    let (on_a, on_b) = (compute.alloc_from_slice(&a)?, compute.alloc_from_slice(&b)?);
    let mut on_c = compute.alloc_from_slice(&c)?;
    let blas = Blas::new(&compute)?;
    let (first, second) = (Matrix::new(&on_a, side, side), Matrix::new(&on_b, side, side));
    blas.gemm(ALPHA, first, second, BETA, MatrixMut::new(&mut on_c, side, side))?;
    let got = compute.copy_to_vec(&on_c)?;

    let difference = largest_difference(side, &a, &b, &c, &got);
    if difference >= 1e-5 {
        return Err(format!("the result differs from the CPU's by {difference:e}").into());
    }
    println!("{side} x {side}: equal to the CPU's within {difference:.1e}");
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
