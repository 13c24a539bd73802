//! A kernel in CUDA C++, compiled when the program runs and launched like a typed kernel.
//!
//! NVRTC compiles `blur.cu`. Where it is not installed, the program loads `blur.ptx`, which NVRTC
//! made before. A simulated device runs the stand-in, plain Rust.

#![deny(unsafe_code)]

use std::sync::Arc;

use clap::Parser;
use cuda_rt::interop::{ForeignGrid, ForeignModule, Nvrtc, NvrtcError, NvrtcOptions};
use cuda_rt::{Device, Live};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, heading};
use cuda_rt_examples::on_device;

cuda_rt::streams! {
    Upload;
    Compute;
    Download;
}

mod kernels {
    #![allow(unsafe_code, reason = "a declaration promises what the kernel does")]

    cuda_rt::foreign_kernel! {
        /// The kernel of `blur.cu`. The promise: it reads and writes elements below `pixels` only,
        /// which both slices have if `width` divides their length; each thread writes its own.
        pub(super) unsafe fn blur(
            input: &[f32],
            output: &mut [f32],
            pixels: u32 = output.len(),
            width: u32,
        ) as Blur;
    }
}
use kernels::Blur;

/// Blurs the rows of a picture.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Pixels of a row.
    #[arg(long, default_value_t = 1920, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    width: u32,
    /// Rows.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    height: u32,
}

const SOURCE: &str = include_str!("blur.cu");
const HEADER: &str = include_str!("pixel.h");
/// `SOURCE` with `RADIUS`, compiled for compute capability 8.0.
const COMPILED: &[u8] = include_bytes!("blur.ptx");
const RADIUS: usize = 3;

/// Compiles the kernel, or takes the compiled one.
fn compile<D: Live>(gpu: &Device<D>) -> Result<Arc<[u8]>, NvrtcError> {
    let nvrtc = match Nvrtc::load() {
        Ok(nvrtc) => nvrtc,
        Err(NvrtcError::Library(_)) => {
            println!("NVRTC is not installed: the kernel was compiled before");
            return Ok(COMPILED.into());
        }
        Err(other) => return Err(other),
    };
    let options = NvrtcOptions::for_device(gpu)
        .named("blur.cu")
        .header("pixel.h", HEADER)
        .define("RADIUS", RADIUS.to_string());
    let compiled = nvrtc.compile(SOURCE, &options)?;
    let (major, minor) = nvrtc.version();
    println!("compiled by NVRTC {major}.{minor}: {} bytes", compiled.len());
    Ok(compiled)
}

/// The kernel on the CPU.
fn blur_on_cpu(input: &[f32], output: &mut [f32], width: usize) {
    for (row, blurred) in input.chunks(width).zip(output.chunks_mut(width)) {
        for (column, mean) in blurred.iter_mut().enumerate() {
            let near = &row[column.saturating_sub(RADIUS)..(column + RADIUS + 1).min(row.len())];
            *mean = near.iter().sum::<f32>() / near.len() as f32;
        }
    }
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    let module = ForeignModule::load(gpu, &compile(gpu)?)?;
    let module = module.stand_in::<Blur>(|_grid, (input, output, pixels, width)| {
        let pixels = pixels as usize;
        blur_on_cpu(&input[..pixels], &mut output[..pixels], width as usize);
    });
    let blur = module.get::<Blur>()?;

    let pixels = args.width as usize * args.height as usize;
    let picture: Vec<f32> = (0..pixels).map(|at| (at * 7919 % 256) as f32).collect();
    let upload = gpu.stream::<Upload<D>>()?;
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let input = upload.release(upload.alloc_from_slice(&picture)?)?;
    let input = compute.acquire(input)?; // the kernel waits for the upload
    let mut output = compute.alloc_zeroed::<f32>(pixels)?;
    let grid = ForeignGrid::covering([pixels, 1, 1], [256, 1, 1]);
    blur.launch(&compute, grid, &input, &mut output, args.width)?;
    // The module is unloaded behind the launch.
    drop((blur, module));
    let output = download.acquire(compute.release(output)?)?; // the download waits for the kernel
    let got = download.copy_to_vec(&output)?;

    let mut expected = vec![0.0; pixels];
    blur_on_cpu(&picture, &mut expected, args.width as usize);
    if let Some(at) = (0..pixels).find(|at| (got[*at] - expected[*at]).abs() > 1e-3) {
        return Err(format!("pixel {at} is {}, and {} on the CPU", got[at], expected[at]).into());
    }
    println!("{} x {}: equal to the CPU's", args.width, args.height);
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
