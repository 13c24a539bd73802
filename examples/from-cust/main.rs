//! A program of the crate cust, half of it converted. Its context, stream, module and buffers stay
//! in use, and the converted half can no longer race.
//!
//! Needs the feature `cust` to build and a GPU to run:
//! `cargo run --release -p cuda-rt-examples --features cust --example from_cust`.
#![allow(unsafe_code, reason = "the part that is not converted is as unsafe as before")]

use std::process::ExitCode;

use clap::Parser;
use cuda_rt::{Device, Grid1};
use cuda_rt_examples::cli::Outcome;
use cust::context::Context;
use cust::memory::{DeviceBuffer, LockedBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use device_kernels::{saxpy, scale};

cuda_rt::streams! {
    /// Downloads of the converted part.
    Download;
}

/// Runs one program on cust's stream and on streams of cuda-rt.
#[derive(Parser)]
struct Args {
    /// Number of elements.
    #[arg(long, default_value_t = 1 << 20)]
    len: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
}

const SQUARE: &str = include_str!("square.ptx");
const BLOCK: u32 = 256;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(right) => {
            println!(
                "{right} of {} elements right, in each of {} rounds",
                args.len, args.rounds
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            // cust's `Display` asks the driver for the code's meaning, and fails without a driver.
            match error.downcast_ref::<cust::error::CudaError>() {
                Some(code) => eprintln!("cust says {code:?}"),
                None => eprintln!("{error}"),
            }
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Outcome<usize> {
    // Unchanged: cust's context, stream and module.
    let context = cust::quick_init()?;
    let module = Module::from_ptx(SQUARE, &[])?;
    let square = module.get_function("square")?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let blocks = u32::try_from(args.len)?.div_ceil(BLOCK);

    // Converted: the context becomes a `Device` and the buffers become `DeviceBuffer`s of cuda-rt.
    // A stream of cuda-rt downloads their contents.
    let gpu = Device::from_cust(Context::clone(&context))?;
    println!("{}", gpu.properties().name);
    let download = gpu.stream::<Download>()?;

    let input: Vec<f32> = (0..args.len).map(|i| (i % 1000) as f32).collect();
    let mut result = gpu.adopt_cust_pinned(LockedBuffer::<f32>::new(&0.0, args.len)?)?;
    let mut right = args.len;
    for round in 0..args.rounds {
        // Rounds alternate between memory of `cuMemAlloc` and memory of a pool.
        let buffer = if round % 2 == 0 {
            DeviceBuffer::from_slice(&input)?
        } else {
            // SAFETY: the next line waits for the copy, and `input` outlives it.
            let buffer = unsafe { DeviceBuffer::from_slice_async(&input, &stream) }?;
            stream.synchronize()?;
            buffer
        };
        let squared = gpu.adopt_cust_stream(&stream, |adopted| -> Outcome<_> {
            // SAFETY: the program keeps no slice of the buffer, and has one context only.
            let mut data = unsafe { adopted.adopt_cust_buffer(buffer) }.map_err(cuda_rt::Error::from)?;
            let mut twice = adopted.alloc_zeroed::<f32>(args.len)?;
            // cust's kernel, as before, with a list of the buffers that it uses. So the checker
            // follows the call, and rustc knows that it writes `data`.
            let (pointer, n) = (data.cust_pointer(), args.len as u64);
            let launch = |stream: &Stream| {
                // SAFETY: the kernel takes a pointer and a length, and uses `n` elements from
                // `pointer`; `data` has `n` elements.
                unsafe { cust::launch!(square<<<blocks, BLOCK, 0, stream>>>(pointer, n)) }
            };
            let call = adopted.foreign("square").writes(&mut data);
            // SAFETY: the closure makes one launch, on the given stream, which uses only `data`.
            unsafe { call.enqueue_cust(launch) }??;
            // Two kernels of cuda-rt follow on the same stream: twice = 2 * data, twice += data.
            scale(adopted, Grid1::covering(args.len), &data, &mut twice, 2.0)?;
            saxpy(adopted, Grid1::covering(args.len), 1.0, &data, &mut twice)?;
            // Without the handoff the download would not compile.
            Ok(adopted.release((data, twice))?)
        })?;
        let (data, twice) = download.acquire(squared)?;
        let mut host = download.adopt(result)?;
        download.copy_to_host(&twice, &mut host)?;
        let (data, host) = download.release((data, host))?.synchronize()?;
        result = host;
        let as_computed = |(x, y): &(&f32, &f32)| **y == 3.0 * *x * *x;
        right = right.min(input.iter().zip(result.iter()).filter(as_computed).count());

        // The way back: cust goes on with a copy, and frees it.
        let data = data.into_cust().map_err(cuda_rt::Error::from)?;
        // SAFETY: the kernel stays inside the buffer, and the next line waits for it before the
        // buffer is dropped.
        unsafe {
            cust::launch!(square<<<blocks, BLOCK, 0, stream>>>(data.as_device_ptr(), args.len as u64))
        }?;
        stream.synchronize()?;
    }
    Ok(right)
}
