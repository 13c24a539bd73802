//! Common parts of the denoising tests: streams to denoise, and a pipeline on a simulated device.
#![allow(dead_code)] // each test file uses a part of it

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_rt::simulator::{SimConfig, Simulator};
use cuda_rt::{Device, Live};
use cuda_rt_examples::denoise::failure::StageError;
use cuda_rt_examples::denoise::filter::Filter;
use cuda_rt_examples::denoise::pipeline::{FramesFrom, FramesTo, Pipeline};
use cuda_rt_examples::denoise::report::Pass;
use cuda_rt_examples::denoise::serial;
use cuda_rt_examples::y4m::{FileReader, FileWriter, Reader, Writer};

pub(crate) const FILTER: Filter = Filter {
    radius: 2,
    sigma_space: 1.5,
    sigma_range: 30.0,
};

/// A stream of this format with `frames` frames of random samples, and parameters on every other
/// frame.
pub(crate) fn stream(width: usize, height: usize, format: &str, chroma_bytes: usize, frames: u64) -> Vec<u8> {
    let mut stream = format!("YUV4MPEG2 W{width} H{height} F24:1 {format} Xtest\n").into_bytes();
    let mut state = 1_u32;
    for frame in 0..frames {
        stream.extend(
            if frame % 2 == 0 {
                "FRAME\n".to_owned()
            } else {
                format!("FRAME Xframe={frame}\n")
            }
            .bytes(),
        );
        stream.extend((0..width * height + chroma_bytes).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }));
    }
    stream
}

/// A 4:2:0 stream.
pub(crate) fn stream_420(width: usize, height: usize, frames: u64) -> Vec<u8> {
    stream(
        width,
        height,
        "C420jpeg",
        2 * width.div_ceil(2) * height.div_ceil(2),
        frames,
    )
}

/// Runs the overlapped pipeline on `gpu`. Calls `prepare` after the kernel's code is loaded.
pub(crate) fn overlapped<D: Live>(
    gpu: &Device<D>,
    source: impl Read + Send,
    sink: impl Write + Send,
    buffers: usize,
    prepare: impl FnOnce(&Simulator),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Pass, StageError> {
    let mut clip = Reader::new(source).expect("a header");
    let header = clip.header().clone();
    let mut output = Writer::new(sink, &header).expect("room for the header");
    let pipeline = Pipeline::new(gpu, FILTER, buffers, 1).expect("the kernel's code");
    prepare(gpu.simulator().expect("a simulated device"));
    let (from, to) = (FramesFrom::InTurn(&mut clip), FramesTo::InTurn(&mut output));
    pipeline.run(from, to, progress)
}

/// Runs the overlapped pipeline with `threads` threads that read a file, and as many that write
/// another.
pub(crate) fn overlapped_files<D: Live>(
    gpu: &Device<D>,
    from: &FileReader,
    to: &File,
    (buffers, threads): (usize, usize),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Pass, StageError> {
    let output = FileWriter::new(to, from.header()).expect("room for the header");
    let pipeline = Pipeline::new(gpu, FILTER, buffers, threads).expect("the kernel's code");
    let from = FramesFrom::<&[u8]>::AtOffsets(from);
    pipeline.run(from, FramesTo::<Vec<u8>>::AtOffsets(&output), progress)
}

/// A file with these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for a small clip");
    file
}

/// The overlapped pipeline's output for a stream in a file, by several threads.
pub(crate) fn denoised_by_threads(
    stream: &[u8],
    config: SimConfig,
    (buffers, threads): (usize, usize),
) -> Vec<u8> {
    let from = FileReader::new(file_of(stream)).expect("a header");
    let mut to = file_of(b"");
    let pass = Device::simulated(config, |gpu| {
        overlapped_files(&gpu, &from, &to, (buffers, threads), &|_| {})
    })
    .expect("a simulated device")
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((pass.readers, pass.writers), (threads, threads));
    let mut result = Vec::new();
    to.rewind().expect("a file");
    to.read_to_end(&mut result).expect("a file");
    result
}

/// The overlapped pipeline's output for a stream.
pub(crate) fn denoised(stream: &[u8], config: SimConfig, buffers: usize) -> Vec<u8> {
    let mut result = Vec::new();
    Device::simulated(config, |gpu| {
        overlapped(&gpu, stream, &mut result, buffers, |_| {}, &|_| {})
    })
    .expect("a simulated device")
    .unwrap_or_else(|error| panic!("{error}"));
    result
}

/// The serial pass's output for a stream.
pub(crate) fn denoised_serially(stream: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    Device::simulated(SimConfig::default(), |gpu| {
        let mut clip = Reader::new(stream).expect("a header");
        let mut output = Writer::new(&mut result, &clip.header().clone()).expect("memory");
        serial::run(&gpu, &mut clip, &mut output, FILTER, &|_| {})
    })
    .expect("a simulated device")
    .unwrap_or_else(|error| panic!("{error}"));
    result
}

/// Runs `test` on a thread, and fails if it does not end in time: a deadlock must not hang the test
/// suite.
pub(crate) fn ends<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || done.send(test()).expect("the other end waits"));
    match ended.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: no end after two minutes"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}
