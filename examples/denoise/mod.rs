//! Denoises a video end to end: reading, upload, compute, download and writing all work at once.
//!
//! Start with [`pipeline`]. The luma plane goes through a bilateral filter on the GPU; chroma and
//! all text of the stream stay unchanged. The output is the same for any number of buffers and
//! threads, and any timing. `--compare` compares it with [`serial`], which does the same work on
//! one stream. `--compare-copy` compares the time with a [`copy`] of the input without a GPU.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use cuda_rt::{Device, Live};
use indicatif::{ProgressBar, ProgressStyle};

use crate::y4m::{self, FileReader, FileWriter, Header, Reader, Writer};
use args::{Args, DeviceChoice};
use before_after::BeforeAfter;
use clip::NoisyClip;
use copy::CopyFigures;
use failure::{Failure, Stage, StageError};
use live::Live as LiveView;
use observer::{All, Observer};
use output::Output;
use pictures::Recorder;
use pipeline::{FramesFrom, FramesTo, Pipeline};
use report::{Pass, Report, Subject, Times};

pub mod args;
pub mod before_after;
pub mod clip;
pub mod clock;
mod compare;
pub mod copy;
pub mod failure;
pub mod filter;
pub mod live;
pub mod observer;
pub mod output;
pub mod pictures;
pub mod pipeline;
pub mod report;
mod rgb;
pub mod scene;
pub mod serial;
pub mod watch;

/// Runs the example with the command line's options.
///
/// # Errors
/// A [`Failure`]. The output file is then as it was before.
pub fn run(args: &Args) -> Result<Report, Failure> {
    args.check().map_err(Failure::Usage)?;
    let clip = Input::open(args)?;
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

type Stream = Reader<Box<dyn Read + Send>>;

/// The input of the overlapped pass.
enum Input {
    /// Standard input, a pipe, or the clip that the program makes.
    InTurn(Stream),
    /// A file.
    AtOffsets(FileReader),
}

impl Input {
    fn open(args: &Args) -> Result<Self, Failure> {
        let no_offsets = |path: &Path| path == Path::new("-") || !path.is_file();
        match args.input.as_deref() {
            None => open(args).map(Self::InTurn),
            Some(path) if no_offsets(path) => open(args).map(Self::InTurn),
            Some(path) => FileReader::new(open_file(args, path)?)
                .map(Self::AtOffsets)
                .map_err(|source| no_header(args, source)),
        }
    }

    fn header(&self) -> &Header {
        match self {
            Self::InTurn(clip) => clip.header(),
            Self::AtOffsets(clip) => clip.header(),
        }
    }
}

/// Opens the input, or makes a clip, and reads its header.
fn open(args: &Args) -> Result<Stream, Failure> {
    let source: Box<dyn Read + Send> = match args.input.as_deref() {
        None => Box::new(NoisyClip::new(
            args.size.width,
            args.size.height,
            args.frames,
            args.seed,
        )),
        Some(path) if path == Path::new("-") => Box::new(BufReader::new(io::stdin())),
        Some(path) => Box::new(BufReader::new(open_file(args, path)?)),
    };
    Reader::new(source).map_err(|source| no_header(args, source))
}

fn open_file(args: &Args, path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|source| Failure::Open {
        name: args.input_name(),
        source,
    })
}

fn no_header(args: &Args, source: y4m::Error) -> Failure {
    Failure::Header {
        name: args.input_name(),
        source,
    }
}

fn denoise<D: Live>(gpu: &Device<D>, args: &Args, mut clip: Input) -> Result<Report, Failure> {
    let header = clip.header().clone();
    let cannot_write = |source| Failure::Output {
        name: args.output_name(),
        source,
    };
    let mut output = Output::create(args.output.as_deref()).map_err(cannot_write)?;
    if args.compare_copy && output.file().is_none() {
        return Err(Failure::Usage(
            "--compare-copy copies to the output's directory, so `-o` is a file",
        ));
    }
    let simulated = gpu.is_simulated();
    let (buffers, threads) = (args.buffers(simulated), args.threads(simulated));
    let pipeline = Pipeline::new(gpu, args.filter(), buffers, threads)?;
    let wanted = args.pictures();
    let before_after = wanted.map(|_| BeforeAfter::new(&header, args.frame_for_picture()));
    let recorder = Recorder::start(gpu, args)?;
    let mut observers: Vec<&dyn Observer> = Vec::new();
    observers.extend(before_after.as_ref().map(|both| both as &dyn Observer));
    observers.extend(recorder.as_ref().map(|recorder| recorder as &dyn Observer));

    let copy = |clip: &Input, output: &Output| match clip {
        Input::AtOffsets(clip) if args.compare_copy => {
            let copied = scratch(output)
                .and_then(|to| copy::copy(clip.file(), &to, 2 * threads, header.frame_bytes()));
            copied.map(Some).map_err(cannot_write)
        }
        _ => Ok(None),
    };
    let before = copy(&clip, &output)?;
    let (overlapped, serial) = if args.compare {
        let (left, right) = (
            scratch(&output).map_err(cannot_write)?,
            scratch(&output).map_err(cannot_write)?,
        );
        let overlapped = overlap(
            gpu,
            args,
            pipeline,
            &mut clip,
            Target::AtOffsets(&left),
            &observers,
        )?;
        let mut writer = Writer::new(BufWriter::new(&right), &header).map_err(cannot_write)?;
        let bar = progress_bar(args, "one stream");
        let progress = |frames| bar.set_position(frames);
        let serial = serial::run(gpu, &mut open(args)?, &mut writer, args.filter(), &progress)
            .map_err(|error| failed(gpu, args, error))?;
        bar.finish_and_clear();
        let bytes = identical(&left, &right)
            .map_err(cannot_write)?
            .map_err(|offset| Failure::Differ { offset })?;
        (&left)
            .rewind()
            .and_then(|()| io::copy(&mut &left, &mut output))
            .map_err(cannot_write)?;
        (overlapped, Some((serial, bytes)))
    } else {
        let file = output.file().map(File::try_clone).transpose();
        let target = match &file.map_err(cannot_write)? {
            Some(file) => overlap(
                gpu,
                args,
                pipeline,
                &mut clip,
                Target::AtOffsets(file),
                &observers,
            ),
            None => overlap(
                gpu,
                args,
                pipeline,
                &mut clip,
                Target::InTurn(&mut output),
                &observers,
            ),
        };
        (target?, None)
    };
    let copies = [before, copy(&clip, &output)?].into_iter().flatten();
    let copied = args.compare_copy.then(|| match &clip {
        Input::AtOffsets(clip) => Some(CopyFigures::new(&overlapped, copies, clip.file_bytes())),
        Input::InTurn(_) => None,
    });
    let timeline = recorder.map(Recorder::finish).transpose()?.flatten();
    let (pictures, chart) = pictures::write(args, before_after.as_ref(), timeline.as_ref())?;
    output.commit().map_err(cannot_write)?;

    let subject = subject(gpu, args, &header);
    let serial = serial.as_ref().map(|(pass, bytes): &(Pass, u64)| (pass, *bytes));
    Ok(Report::new(subject, &overlapped, serial)
        .with_copy(copied.flatten())
        .with_chart(chart)
        .with_pictures(pictures))
}

/// The output of the overlapped pass.
enum Target<'a> {
    InTurn(&'a mut (dyn Write + Send)),
    AtOffsets(&'a File),
}

/// Runs the overlapped pass, and meanwhile shows the live view or a progress bar.
fn overlap<D: Live>(
    gpu: &Device<D>,
    args: &Args,
    pipeline: Pipeline<D>,
    clip: &mut Input,
    target: Target<'_>,
    observers: &[&dyn Observer],
) -> Result<Pass, Failure> {
    let header = clip.header().clone();
    let cannot_write = |source| Failure::Output {
        name: args.output_name(),
        source,
    };
    let from = match clip {
        Input::InTurn(clip) => FramesFrom::InTurn(clip),
        Input::AtOffsets(clip) => FramesFrom::AtOffsets(clip),
    };
    let (mut stream, file);
    let to = match target {
        Target::InTurn(sink) => {
            stream = Writer::new(sink, &header).map_err(cannot_write)?;
            FramesTo::InTurn(&mut stream)
        }
        Target::AtOffsets(sink) => {
            file = FileWriter::new(sink, &header).map_err(cannot_write)?;
            FramesTo::AtOffsets(&file)
        }
    };
    let done = if args.watch {
        let heading = heading(gpu, args, &header);
        let live = LiveView::new(heading, gpu.is_simulated(), args.known_frames());
        watch::show(&live, |view| {
            let all = All([observers, &[view]].concat());
            pipeline.run(from, to, &all)
        })
        .map_err(Failure::Terminal)?
    } else {
        let bar = progress_bar(args, "overlapped");
        let progress = |frames| bar.set_position(frames);
        let all = All([observers, &[&progress]].concat());
        let done = pipeline.run(from, to, &all);
        bar.finish_and_clear();
        done
    };
    done.map_err(|error| failed(gpu, args, error))
}

fn subject<D>(gpu: &Device<D>, args: &Args, header: &Header) -> Subject {
    Subject {
        device: gpu.properties().name.clone(),
        times: if gpu.is_simulated() {
            Times::Modelled
        } else {
            Times::Measured
        },
        size: header.size(),
        filter: args.filter(),
        buffers: args.buffers(gpu.is_simulated()),
    }
}

/// The subject in one line, for the live view.
fn heading<D>(gpu: &Device<D>, args: &Args, header: &Header) -> String {
    let (width, height) = header.size();
    format!(
        "{width}x{height}, radius {}, on {}; times are {}",
        args.radius,
        gpu.properties().name,
        if gpu.is_simulated() {
            "MODELLED"
        } else {
            "measured"
        }
    )
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
fn scratch(output: &Output) -> io::Result<File> {
    match output.directory() {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
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
fn progress_bar(args: &Args, what: &'static str) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let template = match args.known_frames() {
        Some(_) => "{msg:10} {bar:40} {pos}/{len} frames, {per_sec}, {eta} left",
        None => "{msg:10} {spinner} {pos} frames, {per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(args.known_frames().unwrap_or_default())
        .with_style(style)
        .with_message(what)
}
