//! Foreign work between handoffs: a matrix product by cuBLAS, and a kernel of hand-written PTX.
//!
//! ```text
//!   Upload    A, B, bias ─release─▶
//!   Compute                acquire ▶ cuBLAS: C = A·B ▶ PTX: C = max(C + bias, 0) ─release─▶
//!   Download                                                                       acquire ▶ C
//! ```
//!
//! The program loads cuBLAS at run time; cuBLAS needs a GPU. Without a GPU the same program runs on
//! simulated devices, in several orders. There a plain function stands in for the call of cuBLAS,
//! and another for the PTX. The program prints which of both ran.

mod bias_relu;
mod blas;
mod stand_in;

use std::process::ExitCode;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, OpenError};

use blas::{Blas, Product};

cuda_rt::streams! {
    /// Copies inputs to the device.
    Upload;
    /// Multiplies matrices.
    Compute, priority = High;
    /// Copies the result back.
    Download;
}

/// Sizes: C is `ROWS` × `COLUMNS`, A is `ROWS` × `INNER`. All matrices are stored row by row.
const ROWS: usize = 192;
const COLUMNS: usize = 160;
const INNER: usize = 128;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cublas_gemm: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Failure> {
    let gpu = Device::open_or_simulate()?;
    if gpu.is_simulated() {
        println!("NO GPU: on the simulated device plain functions stand in for cuBLAS and for the PTX");
    }
    println!("{}", program(&gpu)?);
    if gpu.is_simulated() {
        for seed in 1..8 {
            Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
        }
        println!("the same in 7 more orders of the simulated device");
    }
    Ok(())
}

/// The reason why the example failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Runtime(#[from] Error),
    #[error("cuBLAS: {0}")]
    Blas(#[from] blas::BlasError),
    #[error("element {index} is {got} instead of {wanted}")]
    Wrong { index: usize, got: f32, wanted: f32 },
}

/// Small integers, so that every sum is exact in any order.
fn numbers(len: usize, step: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * step) % 7) as f32 - 3.0).collect()
}

/// Runs the example, and returns a sentence about the result.
fn program<D: Live>(gpu: &Device<D>) -> Result<String, Failure> {
    let upload = gpu.stream::<Upload<D>>()?;
    let compute = gpu.stream::<Compute<D>>()?;
    let download = gpu.stream::<Download<D>>()?;
    let blas = Blas::new(gpu, &compute)?;

    let (a, b) = (numbers(ROWS * INNER, 3), numbers(INNER * COLUMNS, 5));
    let bias = numbers(COLUMNS, 2);
    let on_device = |source: &[f32]| {
        let host = upload.adopt(gpu.pinned_from(source)?)?;
        upload.init_from_host(upload.alloc_uninit(source.len())?, &host)
    };
    let inputs = upload.release((on_device(&a)?, on_device(&b)?, on_device(&bias)?))?;

    let (a_device, b_device, bias_device) = compute.acquire(inputs)?;
    let mut c = compute.alloc_zeroed::<f32>(ROWS * COLUMNS)?;
    let start = compute.record_timed_event()?;
    blas.multiply(Product {
        a: &a_device,
        b: &b_device,
        c: &mut c,
        rows: ROWS,
        columns: COLUMNS,
        inner: INNER,
    })?;
    let end = compute.record_timed_event()?;
    bias_relu::launch(&compute, &bias_device, &mut c)?;

    let c = download.acquire(compute.release(c)?)?;
    let mut host = download.adopt(gpu.pinned::<f32>(ROWS * COLUMNS)?)?;
    download.copy_to_host(&c, &mut host)?;
    let host = download.release(host)?.synchronize()?;

    for (index, (&got, wanted)) in host.iter().zip(expected(&a, &b, &bias)).enumerate() {
        if got != wanted {
            return Err(Failure::Wrong { index, got, wanted });
        }
    }
    let ms = end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?;
    Ok(format!(
        "{}: {ROWS}x{INNER} by {INNER}x{COLUMNS}, all {} elements right; {} took {:.1} µs{}",
        gpu.properties().name,
        host.len(),
        blas.name(),
        ms * 1e3,
        if gpu.is_simulated() { " (modelled)" } else { "" }
    ))
}

fn expected<'a>(a: &'a [f32], b: &'a [f32], bias: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    a.chunks_exact(INNER).flat_map(move |row| {
        bias.iter().enumerate().map(move |(column, bias)| {
            let column = b.iter().skip(column).step_by(COLUMNS);
            let sum: f32 = row.iter().zip(column).map(|(x, y)| x * y).sum();
            (sum + bias).max(0.0)
        })
    })
}
