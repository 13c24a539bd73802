//! The serial pass: the same work on one stream, one step after another, to compare with the
//! overlapped pipeline.

use std::io::{Read, Write};
use std::time::Duration;

use cuda_rt::{Device, Live};

use super::clock::{DeviceClock, HostClock, Span};
use super::failure::{At, Stage, StageError};
use super::filter::Filter;
use super::report::Pass;
use crate::y4m::{FrameLine, Reader, Writer};

cuda_rt::streams! {
    /// Runs all work.
    pub OnlyStream;
}

/// Denoises every frame of `clip` into `output`, and flushes it. Calls `progress` with the number
/// of frames written.
///
/// # Errors
/// The stage that failed.
pub fn run<D: Live>(
    gpu: &Device<D>,
    clip: &mut Reader<impl Read>,
    output: &mut Writer<impl Write>,
    filter: Filter,
    progress: &dyn Fn(u64),
) -> Result<Pass, StageError> {
    let header = clip.header().clone();
    let (stream, mut luma, mut noisy, mut clean) = Stage::Upload.of(0, || {
        let stream = gpu.stream::<OnlyStream<D>>()?;
        let luma = gpu.pinned::<u8>(header.luma_bytes())?;
        let noisy = stream.alloc_zeroed::<u8>(luma.len())?;
        let clean = stream.alloc_zeroed::<u8>(luma.len())?;
        filter.warm_up(&stream)?;
        Ok((stream, luma, noisy, clean))
    })?;
    let (mut line, mut chroma) = (FrameLine::default(), vec![0; header.chroma_bytes()]);
    let (mut clock, mut reading, mut writing) = (DeviceClock::default(), Duration::ZERO, Duration::ZERO);

    let host = HostClock::of(gpu);
    let start = host.now();
    for index in 0.. {
        let started = host.now();
        let more = clip
            .read_frame(&mut line, &mut luma, &mut chroma)
            .at(Stage::Read, index)?;
        if more {
            host.moved(header.frame_bytes());
        }
        reading += host.now() - started;
        if !more {
            break;
        }

        let mut moving = stream.adopt(luma).at(Stage::Upload, index)?;
        let upload = Stage::Upload.of(index, || {
            Span::around(&stream, || stream.copy_to_device(&moving, &mut noisy))
        })?;
        let kernel = Stage::Kernel.of(index, || {
            Span::around(&stream, || {
                filter.launch(&stream, header.size(), &noisy, &mut clean)
            })
        })?;
        let download = Stage::Download.of(index, || {
            Span::around(&stream, || stream.copy_to_host(&clean, &mut moving))
        })?;
        luma = Stage::Download.of(index, || stream.release(moving)?.synchronize())?;
        clock.add([upload, kernel, download]).at(Stage::Download, index)?;

        let started = host.now();
        output
            .write_frame(&line, &luma, &chroma)
            .at(Stage::Write, index)?;
        host.moved(header.frame_bytes());
        writing += host.now() - started;
        progress(index + 1);
    }
    let started = host.now();
    output
        .flush()
        .at(Stage::Write, clock.frames().saturating_sub(1))?;
    writing += host.now() - started;

    Ok(clock.pass(host.now() - start, reading, writing))
}
