//! The command line of the example.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;

use clap::Parser;

use super::filter::Filter;
use super::pictures::{is_json, is_svg};
use super::watch;
pub use crate::choice::DeviceChoice;

/// Denoises the luma of a YUV4MPEG2 video on the GPU, with reading, upload, compute, download and
/// writing all overlapped.
///
/// Without a GPU the same program runs on the simulated device: results are real, times are
/// modelled.
#[derive(Clone, Debug, Parser)]
#[command(name = "denoise", version)]
pub struct Args {
    /// Video to denoise (`-` for standard input). Without it, the program makes a noisy clip.
    pub input: Option<PathBuf>,

    /// File for the result (`-` for standard output); without it, the result is dropped. The file
    /// appears only when it is complete, so it may be the input.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Radius of the filter's window, in pixels.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub radius: u32,

    /// Standard deviation of the weights over distance, in pixels.
    #[arg(long, default_value_t = 2.0, value_name = "PIXELS", value_parser = deviation)]
    pub sigma_space: f32,

    /// Standard deviation of the weights over difference, in steps of a sample, which has 256.
    #[arg(long, default_value_t = 36.0, value_name = "STEPS", value_parser = deviation)]
    pub sigma_range: f32,

    /// Buffers on each side of each copy: 1 leaves little to overlap, 2 is double buffering. Each
    /// thread that reads or writes needs one [default: 2, or one more than threads].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub buffers: Option<usize>,

    /// Threads that read the file, and as many that write the output. A pipe is read or written by
    /// one thread [default: a quarter of the cores, 1 to 8; on the simulated device 1].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=63))]
    pub threads: Option<usize>,

    /// Device to compute on.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,

    /// Also run everything on one stream, one step after another, and compare results and times.
    #[arg(long)]
    pub compare: bool,

    /// Also copy the input file to the output's directory, with as many threads as read and write,
    /// before and after the run, and compare the run with the faster copy. No copy stays.
    #[arg(long)]
    pub compare_copy: bool,

    /// Directory for two pictures: a frame before and after, and the timeline of the first 24
    /// frames. Without this option they are written too, except with `--compare`,
    /// `--compare-copy`, `--json`, `--quiet` and `-o -` [default: denoise-out].
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,

    /// Write no pictures.
    #[arg(long, conflicts_with = "pictures")]
    pub no_pictures: bool,

    /// Show the run in the terminal while it goes on: what each stage does, frames a second, and
    /// kernel utilisation.
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub watch: bool,

    /// Write the timeline of all frames to FILE: a picture (`.svg`), or a trace for ui.perfetto.dev
    /// (`.json`).
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Print the timeline as a chart.
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub gantt: bool,

    /// Print the report as one JSON object.
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,

    /// Print neither progress nor report.
    #[arg(short, long)]
    pub quiet: bool,

    /// Number of frames of the generated clip.
    #[arg(long, default_value_t = 24, conflicts_with = "input")]
    pub frames: u64,

    /// Size of the generated clip.
    #[arg(long, default_value = "640x360", value_name = "WxH", conflicts_with = "input")]
    pub size: Size,

    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1, conflicts_with = "input")]
    pub seed: u64,
}

impl Args {
    /// The filter's settings.
    pub fn filter(&self) -> Filter {
        Filter {
            radius: self.radius,
            sigma_space: self.sigma_space,
            sigma_range: self.sigma_range,
        }
    }

    /// Number of threads that read a file, and that write a file.
    pub fn threads(&self, simulated: bool) -> usize {
        // Kernels of the simulated device run on the same cores, and its modelled times repeat
        // from run to run only with one thread.
        let of_device = || if simulated { 1 } else { threads_of(cores()) };
        self.threads.unwrap_or_else(of_device)
    }

    /// Number of buffers at each boundary between two stages.
    pub fn buffers(&self, simulated: bool) -> usize {
        self.buffers.unwrap_or_else(|| self.threads(simulated) + 1)
    }

    /// The input's name, for messages.
    pub fn input_name(&self) -> String {
        match self.input.as_deref() {
            None => "made clip".into(),
            Some(path) if path == Path::new("-") => "standard input".into(),
            Some(path) => path.display().to_string(),
        }
    }

    /// The output's name, for messages.
    pub fn output_name(&self) -> String {
        match self.output.as_deref() {
            None => "no output".into(),
            Some(_) if self.writes_stdout() => "standard output".into(),
            Some(path) => path.display().to_string(),
        }
    }

    /// Where pictures are wanted, and whether somebody asked for them.
    pub fn pictures(&self) -> Option<WantedPictures<'_>> {
        let measures = self.compare || self.compare_copy || self.json || self.quiet || self.writes_stdout();
        let directory = match &self.pictures {
            Some(directory) => directory,
            None if self.no_pictures || measures => return None,
            None => Path::new("denoise-out"),
        };
        Some(WantedPictures {
            directory,
            asked: self.pictures.is_some(),
        })
    }

    /// The number of frames, if it is known. That of a file is unknown before its end.
    pub fn known_frames(&self) -> Option<u64> {
        self.input.is_none().then_some(self.frames)
    }

    /// The frame that the picture shows, unless the clip ends before it.
    pub fn frame_for_picture(&self) -> u64 {
        self.known_frames().unwrap_or(48).min(48) / 2
    }

    /// Whether the result goes to standard output. The report cannot go there too.
    pub fn writes_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Checks the rules that `clap` can't check by itself.
    ///
    /// # Errors
    /// A sentence for the user about the broken rule.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.compare && self.input.as_deref().is_some_and(|path| !path.is_file()) {
            return Err("--compare reads the input twice, so it needs a file");
        }
        let is_file = |path: &Path| path.is_file();
        if self.compare_copy && (!self.input.as_deref().is_some_and(is_file) || self.output.is_none()) {
            return Err("--compare-copy copies a file, so it needs a file and `-o`");
        }
        if self
            .timeline
            .as_deref()
            .is_some_and(|path| !is_svg(path) && !is_json(path))
        {
            return Err("--timeline writes a picture (.svg) or a trace (.json)");
        }
        if self.watch && self.writes_stdout() {
            return Err("--watch and `-o -` both want standard output");
        }
        if self.watch && !watch::is_possible() {
            return Err("--watch draws on standard output, which is no terminal here");
        }
        if self.json && self.writes_stdout() {
            return Err("--json and `-o -` both want standard output");
        }
        Ok(())
    }
}

/// Where pictures are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPictures<'a> {
    /// The directory. It may not exist yet.
    pub directory: &'a Path,
    /// Whether somebody asked for pictures. If not, the run succeeds without them.
    pub asked: bool,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (width, height) = text.split_once('x').ok_or("a size is written 640x360")?;
        let side = |text: &str| text.parse().ok().filter(|side| (1..=16384).contains(side));
        match (side(width), side(height)) {
            (Some(width), Some(height)) => Ok(Self { width, height }),
            _ => Err("each side has 1 to 16384 pixels"),
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The default number of threads on a machine with this many cores. A quarter reads and a quarter
/// writes; the pipeline's other threads and the rest of the machine have the other half.
fn threads_of(cores: usize) -> usize {
    (cores / 4).clamp(1, 8)
}

fn deviation(text: &str) -> Result<f32, &'static str> {
    match text.parse::<f32>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a standard deviation is a number above 0"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["denoise"], words].concat())
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for words in [
            ["--radius", "0"],
            ["--radius", "17"],
            ["--buffers", "0"],
            ["--buffers", "65"],
            ["--threads", "0"],
            ["--threads", "64"],
            ["--size", "640"],
            ["--size", "0x4"],
            ["--size", "4x-4"],
            ["--size", "99999x1"],
            ["--sigma-space", "0"],
            ["--sigma-range", "nan"],
            ["--sigma-range", "inf"],
            ["clip.y4m", "--frames=3"],
        ] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn threads_follow_the_cores_and_buffers_follow_the_threads() {
        assert_eq!(
            [1, 2, 4, 7, 8, 16, 32, 256].map(threads_of),
            [1, 1, 1, 1, 2, 4, 8, 8]
        );
        let both = |words: &[&str], simulated| {
            let args = parse(words).unwrap();
            (args.threads(simulated), args.buffers(simulated))
        };
        assert_eq!(both(&[], true), (1, 2));
        let threads = threads_of(cores());
        assert_eq!(both(&[], false), (threads, threads + 1));
        assert_eq!(both(&["--threads", "4"], true), (4, 5));
        assert_eq!(both(&["--threads", "4", "--buffers", "2"], false), (4, 2));
    }

    #[test]
    fn a_copy_needs_two_files() {
        let refused = |words: &[&str]| parse(words).unwrap().check().is_err();
        assert!(refused(&["--compare-copy"]));
        assert!(refused(&["--compare-copy", "-o", "out.y4m"]));
        assert!(refused(&["-", "--compare-copy", "-o", "out.y4m"]));
    }

    #[test]
    fn standard_streams_are_used_once() {
        assert!(parse(&["-", "--compare"]).unwrap().check().is_err());
        assert!(parse(&["-o", "-", "--json"]).unwrap().check().is_err());
        assert!(parse(&["-", "-o", "-"]).unwrap().check().is_ok());
    }

    #[test]
    fn pictures_are_for_people_or_on_demand() {
        let asked = |words: &[&str]| {
            let args = parse(words).unwrap();
            args.pictures()
                .map(|wanted| (wanted.directory.to_str().unwrap().to_owned(), wanted.asked))
        };
        assert_eq!(asked(&[]), Some(("denoise-out".into(), false)));
        assert_eq!(
            asked(&["clip.y4m", "-o", "o.y4m"]),
            Some(("denoise-out".into(), false))
        );
        for one in [
            &["--json"][..],
            &["-q"],
            &["--compare"],
            &["-o", "-"],
            &["--no-pictures"],
        ] {
            assert_eq!(asked(one), None, "{one:?}");
        }
        assert_eq!(
            asked(&["--json", "--pictures", "here"]),
            Some(("here".into(), true))
        );
        assert!(parse(&["--pictures", "here", "--no-pictures"]).is_err());
    }

    #[test]
    fn a_live_view_wants_a_terminal_for_itself() {
        assert!(parse(&["--watch", "--json"]).is_err() && parse(&["--watch", "-q"]).is_err());
        assert!(parse(&["--watch", "-o", "-"]).unwrap().check().is_err());
    }

    #[test]
    fn a_timeline_has_a_format() {
        assert!(parse(&["--timeline", "a.png"]).unwrap().check().is_err());
        assert!(parse(&["--timeline", "svg"]).unwrap().check().is_err());
        assert!(parse(&["--timeline", "a.svg"]).unwrap().check().is_ok());
        assert!(
            parse(&["--timeline", "b.json", "--gantt"])
                .unwrap()
                .check()
                .is_ok()
        );
        assert!(parse(&["--gantt", "--json"]).is_err());
    }
}
