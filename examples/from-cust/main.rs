//! A program of the crate cust, converted by half: its context, stream, module and buffers go on,
//! and what is converted can no longer race.
//!
//! Needs the feature `cust` to build and a GPU to run:
//! `cargo run --release -p cuda-rt-examples --features cust --example from_cust`.
#![allow(unsafe_code, reason = "what is not converted is as unsafe as it was")]

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
    /// The part that is converted downloads here.
    Download;
}

/// Runs one program on cust's stream and on streams of cuda-rt.
#[derive(Parser)]
struct Args {
    /// Elements.
    #[arg(long, default_value_t = 1 << 20)]
    len: usize,
    /// Rounds.
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
            // cust's `Display` asks the driver what the code means, and fails where there is none.
            match error.downcast_ref::<cust::error::CudaError>() {
                Some(code) => eprintln!("cust says {code:?}"),
                None => eprintln!("{error}"),
            }
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Outcome<usize> {
    // As it always was: cust's context, stream and module.
    let context = cust::quick_init()?;
    let module = Module::from_ptx(SQUARE, &[])?;
    let square = module.get_function("square")?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let blocks = u32::try_from(args.len)?.div_ceil(BLOCK);

    // Converted: the context becomes a device of ours, the buffers ours, and what they hold is
    // downloaded on a stream of ours.
    let gpu = Device::from_cust(Context::clone(&context))?;
    println!("{}", gpu.properties().name);
    let download = gpu.stream::<Download>()?;

    let input: Vec<f32> = (0..args.len).map(|i| (i % 1000) as f32).collect();
    let mut result = gpu.adopt_cust_pinned(LockedBuffer::<f32>::new(&0.0, args.len)?)?;
    let mut right = args.len;
    for round in 0..args.rounds {
        // From `cuMemAlloc` and from a pool, by turns.
        let buffer = if round % 2 == 0 {
            DeviceBuffer::from_slice(&input)?
        } else {
            // SAFETY: `input` outlives the copy, which the next line waits for.
            let buffer = unsafe { DeviceBuffer::from_slice_async(&input, &stream) }?;
            stream.synchronize()?;
            buffer
        };
        let squared = gpu.adopt_cust_stream(&stream, |adopted| -> Outcome<_> {
            // SAFETY: no slice of it is kept, and there is one context.
            let mut data = unsafe { adopted.adopt_cust_buffer(buffer) }.map_err(cuda_rt::Error::from)?;
            let mut twice = adopted.alloc_zeroed::<f32>(args.len)?;
            // cust's kernel, as before, with what it uses said: the checker follows it, and rustc
            // knows that `data` is written.
            let (pointer, n) = (data.cust_pointer(), args.len as u64);
            let launch = |stream: &Stream| {
                // SAFETY: those are the kernel's parameters, and it writes `n` elements from there.
                unsafe { cust::launch!(square<<<blocks, BLOCK, 0, stream>>>(pointer, n)) }
            };
            let call = adopted.foreign("square").writes(&mut data);
            // SAFETY: one launch on the stream that it is given, of memory that is stated.
            unsafe { call.enqueue_cust(launch) }??;
            // Two of ours, behind it on the same stream: twice = 2 * data, twice += data.
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

        // And back: cust goes on with a copy, and frees it.
        let data = data.into_cust().map_err(cuda_rt::Error::from)?;
        // SAFETY: one launch, within the buffer, which is waited for before it is dropped.
        unsafe {
            cust::launch!(square<<<blocks, BLOCK, 0, stream>>>(data.as_device_ptr(), args.len as u64))
        }?;
        stream.synchronize()?;
    }
    Ok(right)
}
