//! A chain like a decoder's: each chunk takes many kernels, depends on the previous chunk, and is
//! downloaded at once. What the GPU does while a chunk is downloaded, in each way to run the chain:
//!
//! - **serial**: nothing: the host waits for the download
//! - **two streams, pageable memory**: nothing: a copy to pageable memory goes through pinned
//!   memory in pieces, and the host waits for it
//! - **two streams, one buffer**: nothing: the next chunk would overwrite the chunk that is
//!   downloaded
//! - **two streams, two buffers**: it decodes the next chunk into the other buffer
//!
//! The GPU counts as busy between the timing events around the kernels of each chunk. Gaps between
//! two kernels of one chunk are not seen. So give a chunk enough elements that a kernel takes
//! longer than a launch.
//!
//! With CUDA's own asynchronous copies, pageable memory may also race: no call says when such a
//! copy is over. Here they do not compile (H15), and the methods that take a `Vec` block the host.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use cuda_rt::pipeline::{Pipeline, Report};
use cuda_rt::timeline::Kind;
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Grid1, Live, Stream, StreamTag};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, Steps, heading, ms};
use cuda_rt_examples::denoise::output::Output;
use cuda_rt_examples::{interrupt, on_device};
use device_kernels::process4;

cuda_rt::streams! {
    Decode, priority = High;
    Download;
}

/// Decodes chunks with one stream, with two, and with two buffers, and prints how busy the kernels
/// kept the GPU.
#[derive(Clone, Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of chunks.
    #[arg(long, default_value_t = 12)]
    chunks: u32,
    /// Number of elements in a chunk.
    #[arg(long, default_value_t = 1 << 18)]
    elements: usize,
    /// Number of kernels for each chunk.
    #[arg(long, default_value_t = 64)]
    kernels: u32,
    /// Draws four chunks of each of the last two ways: to PATH with `-one` and `-two` before
    /// `.svg`.
    #[arg(long, value_name = "PATH.svg")]
    timeline: Option<PathBuf>,
}

/// The decoder's state between chunks.
struct Decoder<S: StreamTag> {
    state: DeviceBuffer<f32, S>,
    next: DeviceBuffer<f32, S>,
    kernels: u32,
}

impl<S: StreamTag> Decoder<S> {
    fn new(stream: &Stream<S>, args: &Args) -> cuda_rt::Result<Self> {
        Ok(Self {
            state: stream.alloc_zeroed(args.elements)?,
            next: stream.alloc_zeroed(args.elements)?,
            kernels: args.kernels,
        })
    }

    /// Decodes the next chunk: each kernel reads the output of the previous kernel, and the last
    /// output is the chunk.
    fn decode(&mut self, stream: &Stream<S>, chunk: &mut DeviceSlice<f32, S>) -> cuda_rt::Result<()> {
        let grid = Grid1::covering(chunk.len().div_ceil(4));
        for _ in 0..self.kernels {
            process4(stream, grid, &self.state, &mut self.next, 1.0, 0.0625)?;
            std::mem::swap(&mut self.state, &mut self.next);
        }
        stream.copy(&self.state, chunk)
    }
}

/// Each kernel adds 1 to each element, in sixteen steps.
fn check(chunk: u32, data: &[f32], kernels: u32) -> Outcome {
    let expected = (chunk + 1) as f32 * kernels as f32;
    match data.iter().step_by(511).find(|value| **value != expected) {
        None => Ok(()),
        Some(value) => Err(format!("chunk {chunk} has {value}, not {expected}").into()),
    }
}

/// Time on the device, and the share of it in which kernels ran.
type Busy = (Duration, f64);

fn serial<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome<Busy> {
    let stream = gpu.stream::<Decode<D>>()?;
    let mut decoder = Decoder::new(&stream, args)?;
    let mut chunk = stream.alloc_zeroed(args.elements)?;
    let mut host = gpu.pinned::<f32>(args.elements)?;
    let first = stream.record_timed_event()?.synchronize()?;
    let (mut busy_ms, mut last_ms) = (0.0, 0.0);
    for index in 0..args.chunks {
        let start = stream.record_timed_event()?;
        decoder.decode(&stream, &mut chunk)?;
        let end = stream.record_timed_event()?;
        let mut download = stream.adopt(host)?;
        stream.copy_to_host(&chunk, &mut download)?;
        host = stream.release(download)?.synchronize()?;
        check(index, &host, args.kernels)?;
        let end = end.synchronize()?;
        busy_ms += f64::from(end.elapsed_ms_since(&start.synchronize()?)?);
        last_ms = f64::from(end.elapsed_ms_since(&first)?);
    }
    Ok((Duration::from_secs_f64(last_ms / 1e3), busy_ms / last_ms))
}

fn pageable<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome<Busy> {
    let (decode, download) = (gpu.stream::<Decode<D>>()?, gpu.stream::<Download<D>>()?);
    let mut decoder = Decoder::new(&decode, args)?;
    let mut chunk = decode.alloc_zeroed(args.elements)?;
    let mut host = vec![0.0; args.elements];
    let first = decode.record_timed_event()?.synchronize()?;
    let (mut busy_ms, mut last_ms) = (0.0, 0.0);
    for index in 0..args.chunks {
        let start = decode.record_timed_event()?;
        decoder.decode(&decode, &mut chunk)?;
        let end = decode.record_timed_event()?;
        let there = download.acquire(decode.release(chunk)?)?;
        download.copy_to_slice(&there, &mut host)?;
        chunk = decode.acquire(download.release(there)?)?;
        check(index, &host, args.kernels)?;
        let end = end.synchronize()?;
        busy_ms += f64::from(end.elapsed_ms_since(&start.synchronize()?)?);
        last_ms = f64::from(end.elapsed_ms_since(&first)?);
    }
    Ok((Duration::from_secs_f64(last_ms / 1e3), busy_ms / last_ms))
}

fn overlapped<D: Live>(gpu: &Device<D>, args: &Args, buffers: usize) -> Outcome<Report> {
    let mut decoder = Decoder::new(&gpu.stream::<Decode<D>>()?, args)?;
    let report = Pipeline::new(gpu, buffers)
        .generate::<Decode<D>, f32, u32>(args.elements, 0..args.chunks, |stream, _, chunk| {
            decoder.decode(stream, chunk)?;
            Ok(chunk.len())
        })
        .download::<Download<D>>()
        .sink(|chunk, data| check(chunk, data, args.kernels))
        .run()?;
    Ok(report)
}

/// Draws a run with `buffers` buffers, in a file beside `path`.
fn draw<D: Live>(gpu: &Device<D>, args: &Args, buffers: usize, path: &Path, suffix: &str) -> Outcome {
    let few = Args {
        chunks: 4,
        ..args.clone()
    };
    let recording = gpu.record_timeline()?;
    overlapped(gpu, &few, buffers)?;
    let stem = path
        .file_stem()
        .ok_or("--timeline names no file")?
        .to_string_lossy();
    let path = path.with_file_name(format!("{stem}-{suffix}.svg"));
    let timeline = recording.finish()?;
    // The picture begins at the first kernel: before it, memory is mapped.
    let kernels = timeline.spans().iter().filter(|span| span.kind == Kind::Kernel);
    let start = kernels
        .map(|span| span.start_ns)
        .min()
        .ok_or("no kernel was recorded")?;
    let picture = timeline.window(start..timeline.extent_ns().end);
    let write = || {
        let mut output = Output::create(Some(&path))?;
        picture.write_svg(&mut output)?;
        output.commit()
    };
    write().map_err(|error| format!("{}: {error}", path.display()))?;
    println!("drew {}", path.display());
    Ok(())
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    println!(
        "{} chunks of {} elements, {} kernels each; kernels busy from the first one's start to the last one's end\n",
        args.chunks, args.elements, args.kernels
    );
    if !gpu.is_simulated() {
        serial(gpu, args)?; // loads the kernel
    }
    let steps = Steps::new(4);
    let way = |name: &str, run: &dyn Fn() -> Outcome<Busy>| -> Outcome {
        let (time, busy) = steps.step(name, run)?;
        steps.line(format_args!(
            "{name:28} {:9.3} ms, kernels busy {:6.2} %",
            ms(time),
            busy * 100.0
        ));
        Ok(())
    };
    way("serial", &|| serial(gpu, args))?;
    way("two streams, pageable memory", &|| pageable(gpu, args))?;
    for (buffers, name) in [(1, "two streams, one buffer"), (2, "two streams, two buffers")] {
        way(name, &|| {
            let decode = &overlapped(gpu, args, buffers)?.stages[0];
            Ok((decode.ended.saturating_sub(decode.began), decode.utilisation()))
        })?;
    }
    drop(steps);
    if let Some(path) = &args.timeline {
        draw(gpu, args, 1, path, "one")?;
        draw(gpu, args, 2, path, "two")?;
    }
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    interrupt::handle()?;
    on_device!(args.device, |gpu| run(gpu, &args))
}
