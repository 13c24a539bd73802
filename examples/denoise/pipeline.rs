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
//!
//! Files are read and written by several threads at once, each frame at its own offset, straight
//! from the file to page-locked memory and back. A pipe has no offsets, so one thread reads it, and
//! one thread writes to a pipe. The output's bytes are the same for any number of threads.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cuda_rt::pipeline::{self, Cause, PipelineError, StageKind};
use cuda_rt::{Device, Live};

use super::clock::HostClock;
use super::failure::{At, Stage, StageError};
use super::filter::Filter;
use super::observer::Observer;
use super::report::{Parts, Pass};
use crate::y4m::{Error, FileReader, FileWriter, Header, Place, Problem, Reader, Writer};

cuda_rt::streams! {
    /// Copies noisy frames to the device.
    pub Upload;
    /// Denoises them.
    pub Compute, priority = High;
    /// Copies denoised frames back.
    pub Download;
}

/// Where the frames come from.
#[derive(Debug)]
pub enum FramesFrom<'a, R> {
    /// One thread reads a stream to its end.
    InTurn(&'a mut Reader<R>),
    /// Several threads read a file.
    AtOffsets(&'a FileReader),
}

/// Where the frames go.
#[derive(Debug)]
pub enum FramesTo<'a, W> {
    /// One thread writes a stream.
    InTurn(&'a mut Writer<W>),
    /// Several threads write a file.
    AtOffsets(&'a FileWriter<'a>),
}

/// The parts of a frame that do not change.
struct Frame {
    place: Place,
    chroma: Vec<u8>,
}

/// Memory of chroma planes that no frame uses. New memory for each frame would cost the system's
/// time for its pages, as much as the copy into them.
struct Spares {
    spares: Mutex<Vec<Vec<u8>>>,
    bytes: usize,
}

impl Spares {
    fn new(bytes: usize) -> Self {
        Self {
            spares: Mutex::default(),
            bytes,
        }
    }

    fn spares(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        // Each call leaves the list whole.
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<u8> {
        let spare = self.spares().pop();
        spare.unwrap_or_else(|| vec![0; self.bytes])
    }

    fn put(&self, spare: Vec<u8>) {
        self.spares().push(spare);
    }
}

/// The settings for denoising a clip.
#[derive(Debug)]
pub struct Pipeline<D> {
    gpu: Device<D>,
    filter: Filter,
    buffers: usize,
    threads: usize,
}

impl<D: Live> Pipeline<D> {
    /// Loads the kernel's code. Blocks the host. `threads` threads read a file, and as many write a
    /// file.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(gpu: &Device<D>, filter: Filter, buffers: usize, threads: usize) -> cuda_rt::Result<Self> {
        filter.warm_up(&gpu.stream::<Compute<D>>()?)?;
        let gpu = gpu.clone();
        Ok(Self {
            gpu,
            filter,
            buffers,
            threads,
        })
    }

    /// Denoises every frame, and flushes the output. Tells `observer` of frames and times.
    ///
    /// # Errors
    /// The failure of the earliest frame that failed. All threads have then ended; the contents of
    /// the output are unspecified.
    pub fn run(
        self,
        from: FramesFrom<'_, impl Read + Send>,
        mut to: FramesTo<'_, impl Write + Send>,
        observer: &(impl Observer + ?Sized),
    ) -> Result<Pass, StageError> {
        let header: Header = match &from {
            FramesFrom::InTurn(clip) => clip.header().clone(),
            FramesFrom::AtOffsets(clip) => clip.header().clone(),
        };
        let (host, spares) = (HostClock::of(&self.gpu), &Spares::new(header.chroma_bytes()));
        let seen = |frame: &Frame, luma: &[u8]| {
            host.moved(header.frame_bytes());
            observer.read(frame.place.frame, luma, &frame.chroma);
        };
        let pipeline = pipeline::Pipeline::new(&self.gpu, self.buffers);
        let noisy = match from {
            FramesFrom::InTurn(clip) => {
                let mut frames = 0_u64..;
                pipeline.reader(header.luma_bytes(), move |luma| {
                    let mut frame = Frame {
                        place: Place {
                            frame: frames.next().unwrap_or(u64::MAX),
                            offset: clip.offset(),
                            ..Place::default()
                        },
                        chroma: spares.take(),
                    };
                    if !clip.read_frame(&mut frame.place.line, luma, &mut frame.chroma)? {
                        return Ok(None);
                    }
                    seen(&frame, luma);
                    Ok(Some((frame, luma.len())))
                })
            }
            FramesFrom::AtOffsets(clip) => {
                let mut places = clip.places();
                let next = move || {
                    let place = places.next_place()?;
                    Ok(place.map(|place| Frame {
                        place,
                        chroma: spares.take(),
                    }))
                };
                let read = |frame: &mut Frame, luma: &mut [u8]| {
                    clip.read(&frame.place, luma, &mut frame.chroma)?;
                    seen(frame, luma);
                    Ok(luma.len())
                };
                pipeline.reader_ordered(self.threads, header.luma_bytes(), next, read)
            }
        };
        let clean = noisy
            .upload::<Upload<D>>()
            .stage::<Compute<D>>(|stream, _, noisy, clean| {
                self.filter.launch(stream, header.size(), noisy, clean)
            })
            .download::<Download<D>>();

        let frames = AtomicU64::new(0);
        let done = |frame: Frame, luma: &[u8]| {
            host.moved(header.frame_bytes());
            let frames = frames.fetch_add(1, Ordering::Relaxed) + 1;
            observer.written(frame.place.frame, luma, frames);
            spares.put(frame.chroma);
        };
        let ready = match &mut to {
            FramesTo::InTurn(output) => clean.sink(|frame, luma| {
                output
                    .write_frame(&frame.place.line, luma, &frame.chroma)
                    .map_err(|error| Error {
                        frame: Some(frame.place.frame),
                        offset: frame.place.offset,
                        problem: Problem::Write(error),
                    })?;
                done(frame, luma);
                Ok(())
            }),
            FramesTo::AtOffsets(output) => clean.sink_unordered(self.threads, |frame, luma| {
                output.write(&frame.place, luma, &frame.chroma)?;
                done(frame, luma);
                Ok(())
            }),
        };
        let ready = ready.watch(|worked| observer.worked(worked));
        let began = Instant::now();
        let report = ready.run().map_err(failed)?;

        let flushed = host.now();
        if let FramesTo::InTurn(output) = to {
            output.flush().at(Stage::Write, report.items.saturating_sub(1))?;
        }
        let flush_ms = (host.now() - flushed).as_secs_f64() * 1e3;
        Ok(Pass {
            elapsed_ms: began.elapsed().as_secs_f64() * 1e3,
            ..pass(&report, flush_ms)
        })
    }
}

/// The times of the pipeline's report, with the time of flushing.
fn pass(report: &pipeline::Report, flush_ms: f64) -> Pass {
    let threads = |stage: usize| report.stages[stage].workers;
    let ms = |stage: usize| report.stages[stage].busy.as_secs_f64() * 1e3 / threads(stage) as f64;
    Pass {
        readers: threads(0),
        writers: threads(4),
        elapsed_ms: 0.0,
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
