//! The overlapped pipeline: reading, upload, filter, download and writing all busy at once.
//!
//! ```text
//!  stage     read       →  upload        →  filter        →  download      →  write
//!  stream    (host)        Upload           Compute          Download         (host)
//!  memory         page-locked     device, noisy     device, clean    page-locked
//! ```
//!
//! [`cuda_rt::pipeline`] provides the threads, the rings of N buffers between the stages, and the
//! waits: no buffer is filled again before the next stage is done with it. The frame's line and its
//! chroma do not change; they travel with the item on the host.

use std::io::{Read, Write};

use cuda_rt::pipeline::{self, Cause, PipelineError, StageKind};
use cuda_rt::{Device, Live};

use super::clock::HostClock;
use super::failure::{At, Stage, StageError};
use super::filter::Filter;
use super::observer::Observer;
use super::report::{Parts, Pass};
use crate::y4m::{FrameLine, Header, Reader, Writer};

cuda_rt::streams! {
    /// Copies noisy frames to the device.
    pub Upload;
    /// Denoises them.
    pub Compute, priority = High;
    /// Copies denoised frames back.
    pub Download;
}

/// The parts of a frame that do not change.
struct Frame {
    index: u64,
    line: FrameLine,
    chroma: Vec<u8>,
}

/// The settings for denoising a clip.
#[derive(Debug)]
pub struct Pipeline<D> {
    gpu: Device<D>,
    filter: Filter,
    buffers: usize,
}

impl<D: Live> Pipeline<D> {
    /// Loads the kernel's code. Blocks the host.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(gpu: &Device<D>, filter: Filter, buffers: usize) -> cuda_rt::Result<Self> {
        filter.warm_up(&gpu.stream::<Compute<D>>()?)?;
        let gpu = gpu.clone();
        Ok(Self { gpu, filter, buffers })
    }

    /// Denoises every frame of `clip` into `output`, and flushes it. Tells `observer` of frames and
    /// times.
    ///
    /// # Errors
    /// The failure of the earliest frame that failed. All threads have then ended; the contents of
    /// `output` are unspecified.
    pub fn run(
        self,
        clip: &mut Reader<impl Read + Send>,
        output: &mut Writer<impl Write + Send>,
        observer: &(impl Observer + ?Sized),
    ) -> Result<Pass, StageError> {
        let header: Header = clip.header().clone();
        let (mut frames, host) = (0.., HostClock::of(&self.gpu));
        let report = pipeline::Pipeline::new(&self.gpu, self.buffers)
            .reader(header.luma_bytes(), |luma| {
                let mut frame = Frame {
                    index: frames.next().unwrap_or(u64::MAX),
                    line: FrameLine::default(),
                    chroma: vec![0; header.chroma_bytes()],
                };
                let more = clip.read_frame(&mut frame.line, luma, &mut frame.chroma)?;
                if more {
                    host.moved(header.frame_bytes());
                    observer.read(frame.index, luma, &frame.chroma);
                }
                Ok(more.then_some((frame, luma.len())))
            })
            .upload::<Upload<D>>()
            .stage::<Compute<D>>(|stream, _, noisy, clean| {
                self.filter.launch(stream, header.size(), noisy, clean)
            })
            .download::<Download<D>>()
            .sink(|frame, luma| {
                output.write_frame(&frame.line, luma, &frame.chroma)?;
                host.moved(header.frame_bytes());
                observer.written(frame.index, luma);
                Ok(())
            })
            .watch(|worked| observer.worked(worked))
            .run()
            .map_err(failed)?;

        let flushed = host.now();
        output.flush().at(Stage::Write, report.items.saturating_sub(1))?;
        Ok(pass(&report, (host.now() - flushed).as_secs_f64() * 1e3))
    }
}

/// The times of the pipeline's report, with the time of flushing.
fn pass(report: &pipeline::Report, flush_ms: f64) -> Pass {
    let ms = |stage: usize| report.stages[stage].busy.as_secs_f64() * 1e3;
    Pass {
        frames: report.items,
        wall_ms: report.wall.as_secs_f64() * 1e3 + flush_ms,
        parts: Parts {
            read: ms(0),
            upload: ms(1),
            kernel: ms(2),
            download: ms(3),
            write: ms(4) + flush_ms,
        },
    }
}

/// Converts the pipeline's error to the example's, and resumes a panic.
fn failed(error: PipelineError) -> StageError {
    let stage = match error.stage.kind {
        StageKind::Source => Stage::Read,
        StageKind::Upload => Stage::Upload,
        StageKind::Download => Stage::Download,
        StageKind::Sink => Stage::Write,
        _ => Stage::Kernel,
    };
    StageError {
        frame: error.item.unwrap_or(0),
        stage,
        cause: match error.cause {
            Cause::Device(cause) => Box::new(cause),
            Cause::Host(cause) => cause,
            Cause::Panicked(panic) => panic.resume(),
            other => Box::new(other),
        },
    }
}
