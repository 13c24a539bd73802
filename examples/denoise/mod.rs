//! Denoises a video end to end: reading, upload, compute, download and writing all work at once.
//!
//! Start with [`pipeline`]. The luma plane goes through a bilateral filter on the GPU; chroma and
//! all text of the stream stay unchanged. The output is the same for any number of buffers and any
//! timing. `--compare` compares it with [`serial`], which does the same work on one stream.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::path::Path;

use cuda_rt::{Device, Live};
use indicatif::{ProgressBar, ProgressStyle};

use crate::y4m::{Reader, Writer};
use args::{Args, DeviceChoice};
use clip::NoisyClip;
use failure::{Failure, Stage, StageError};
use output::Output;
use pipeline::Pipeline;
use report::{Pass, Report, Subject, Times};

pub mod args;
pub mod clip;
pub mod clock;
mod compare;
pub mod failure;
pub mod filter;
pub mod output;
pub mod picture;
pub mod pipeline;
pub mod report;
pub mod serial;

/// Runs the example with the command line's options.
///
/// # Errors
/// A [`Failure`]. The output file is then as it was before.
pub fn run(args: &Args) -> Result<Report, Failure> {
    args.check().map_err(Failure::Usage)?;
    let clip = open(args)?;
    match args.device {
        DeviceChoice::Auto => denoise(
            &Device::open_or_simulate_with(args.filter().simulated())?,
            args,
            clip,
        ),
        DeviceChoice::Cuda => denoise(&Device::open()?, args, clip),
        DeviceChoice::Sim => Device::simulated(args.filter().simulated(), |gpu| denoise(&gpu, args, clip))?,
    }
}

type Input = Reader<Box<dyn Read + Send>>;

/// Opens the input, or makes a clip, and reads its header.
fn open(args: &Args) -> Result<Input, Failure> {
    let source: Box<dyn Read + Send> = match args.input.as_deref() {
        None => Box::new(NoisyClip::new(
            args.size.width,
            args.size.height,
            args.frames,
            args.seed,
        )),
        Some(path) if path == Path::new("-") => Box::new(BufReader::new(io::stdin())),
        Some(path) => match File::open(path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(source) => {
                return Err(Failure::Open {
                    name: args.input_name(),
                    source,
                });
            }
        },
    };
    Reader::new(source).map_err(|source| Failure::Header {
        name: args.input_name(),
        source,
    })
}

fn denoise<D: Live>(gpu: &Device<D>, args: &Args, mut clip: Input) -> Result<Report, Failure> {
    let header = clip.header().clone();
    let cannot_write = |source| Failure::Output {
        name: args.output_name(),
        source,
    };
    let failed = |error: StageError| failed(gpu, args, error);
    let mut output = Output::create(args.output.as_deref()).map_err(cannot_write)?;
    let bar = progress_bar(args);
    let pipeline = Pipeline::new(gpu, args.filter(), args.buffers)?;
    let progress = |frames| bar.set_position(frames);

    let (overlapped, serial, chart) = if args.compare {
        let (left, right) = (
            scratch(args).map_err(cannot_write)?,
            scratch(args).map_err(cannot_write)?,
        );
        let mut writer = Writer::new(BufWriter::new(&left), &header).map_err(cannot_write)?;
        let run = || pipeline.run(&mut clip, &mut writer, &progress).map_err(failed);
        let (overlapped, chart) = picture::recorded(gpu, args, run)?;
        let mut writer = Writer::new(BufWriter::new(&right), &header).map_err(cannot_write)?;
        let serial = serial::run(gpu, &mut open(args)?, &mut writer, args.filter()).map_err(failed)?;
        let bytes = identical(&left, &right)
            .map_err(cannot_write)?
            .map_err(|offset| Failure::Differ { offset })?;
        (&left)
            .rewind()
            .and_then(|()| io::copy(&mut &left, &mut output))
            .map_err(cannot_write)?;
        (overlapped, Some((serial, bytes)), chart)
    } else {
        let mut writer = Writer::new(&mut output, &header).map_err(cannot_write)?;
        let run = || pipeline.run(&mut clip, &mut writer, &progress).map_err(failed);
        let (overlapped, chart) = picture::recorded(gpu, args, run)?;
        (overlapped, None, chart)
    };
    output.commit().map_err(cannot_write)?;
    bar.finish_and_clear();

    let subject = Subject {
        device: gpu.properties().name.clone(),
        times: if gpu.is_simulated() {
            Times::Modelled
        } else {
            Times::Measured
        },
        size: header.size(),
        filter: args.filter(),
        buffers: args.buffers,
    };
    let serial = serial.as_ref().map(|(pass, bytes): &(Pass, u64)| (pass, *bytes));
    Ok(Report::new(subject, &overlapped, serial).with_chart(chart))
}

/// Compares two files. Returns their number of bytes; the error has the first different byte.
fn identical(left: &File, right: &File) -> io::Result<Result<u64, u64>> {
    let (mut left, mut right) = (left, right);
    left.rewind()?;
    right.rewind()?;
    let bytes = left.metadata()?.len();
    Ok(
        match compare::first_difference(BufReader::new(left), BufReader::new(right))? {
            None => Ok(bytes),
            Some(offset) => Err(offset),
        },
    )
}

/// A file without a name on the output's disk, so that writing costs the same.
fn scratch(args: &Args) -> io::Result<File> {
    match args
        .output
        .as_deref()
        .and_then(Path::parent)
        .filter(|parent| parent.is_dir())
    {
        Some(directory) if !directory.starts_with("/dev") => tempfile::tempfile_in(directory),
        _ => tempfile::tempfile(),
    }
}

/// Adds the name of the file that the stage is nearer to, or of the device, to the failure.
fn failed<D>(gpu: &Device<D>, args: &Args, source: StageError) -> Failure {
    let name = match source.stage {
        Stage::Read => args.input_name(),
        Stage::Write => args.output_name(),
        Stage::Upload | Stage::Kernel | Stage::Download => gpu.properties().name.clone(),
    };
    Failure::Stage { name, source }
}

/// A progress bar on standard error, if standard error is a terminal.
fn progress_bar(args: &Args) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    // The number of a file's frames is unknown before its end.
    let frames = args.input.is_none().then_some(args.frames);
    let template = match frames {
        Some(_) => "{bar:40} {pos}/{len} frames, {per_sec}, {eta} left",
        None => "{spinner} {pos} frames, {per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(frames.unwrap_or_default()).with_style(style)
}
