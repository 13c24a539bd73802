//! Pictures of a run: a frame before and after the filter, and the timeline of the overlapped pass
//! as a picture, a trace or a chart.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cuda_rt::pipeline::Worked;
use cuda_rt::timeline::{Recording, Timeline};
use cuda_rt::{Device, Live};
use serde::Serialize;

use super::args::Args;
use super::before_after::BeforeAfter;
use super::failure::Failure;
use super::observer::{DOWNLOAD, Observer};
use super::output::Output;

/// Number of frames in the timeline that is drawn unasked. A picture of many more shows nothing,
/// and a recording grows with each frame.
const FRAMES: u64 = 24;

/// A picture that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Picture {
    file: PathBuf,
    shows: String,
    /// Whether a file of this name was there.
    replaced: bool,
}

/// The pictures that were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Pictures(Vec<Picture>);

impl fmt::Display for Pictures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pictures")?;
        let name = |picture: &Picture| picture.file.display().to_string();
        let width = self.0.iter().map(|picture| name(picture).chars().count()).max();
        let width = width.unwrap_or(0);
        for picture in &self.0 {
            let replaced = if picture.replaced {
                "; replaces an earlier file"
            } else {
                ""
            };
            writeln!(f, "  {:width$}  {}{replaced}", name(picture), picture.shows)?;
        }
        Ok(())
    }
}

/// Records a run's timeline, or its first frames'.
pub struct Recorder<D: Live> {
    recording: Mutex<Option<Recording<D>>>,
    timeline: Mutex<Option<cuda_rt::Result<Timeline>>>,
    /// Number of frames to record; `None` for all.
    frames: Option<u64>,
}

impl<D: Live> fmt::Debug for Recorder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

impl<D: Live> Recorder<D> {
    /// Starts to record, if the command line needs a timeline.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn start(gpu: &Device<D>, args: &Args) -> cuda_rt::Result<Option<Self>> {
        let whole = args.timeline.is_some() || args.gantt;
        if !whole && args.pictures().is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            recording: Mutex::new(Some(gpu.record_timeline()?)),
            timeline: Mutex::new(None),
            frames: (!whole && args.known_frames().is_none_or(|known| known > FRAMES)).then_some(FRAMES),
        }))
    }

    fn end(&self) {
        let recording = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(recording) = recording {
            let timeline = recording.finish();
            *self.timeline.lock().unwrap_or_else(PoisonError::into_inner) = Some(timeline);
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn finish(self) -> cuda_rt::Result<Option<Timeline>> {
        self.end();
        let timeline = self.timeline.into_inner().unwrap_or_else(PoisonError::into_inner);
        timeline.transpose()
    }
}

impl<D: Live> Observer for Recorder<D> {
    fn worked(&self, worked: Worked) {
        // The times of downloads are known when the frame's write has ended.
        if self.frames == Some(worked.item + 1) && worked.stage == DOWNLOAD {
            self.end();
        }
    }
}

/// Writes the files that the command line asks for. Returns the pictures and the chart.
///
/// # Errors
/// Errors of files that were asked for. If pictures cannot be written that nobody asked for, that
/// is only said on standard error.
pub fn write(
    args: &Args,
    before_after: Option<&BeforeAfter>,
    timeline: Option<&Timeline>,
) -> Result<(Option<Pictures>, Option<String>), Failure> {
    let failed = |path: &Path| {
        let name = path.display().to_string();
        move |source| Failure::Output { name, source }
    };
    if let (Some(path), Some(timeline)) = (&args.timeline, timeline) {
        write_timeline(timeline, path).map_err(failed(path))?;
    }
    let pictures = match args.pictures() {
        None => None,
        Some(wanted) => match write_pictures(wanted.directory, before_after, timeline) {
            Ok(pictures) => Some(pictures),
            Err((path, source)) if wanted.asked => return Err(failed(&path)(source)),
            Err((path, error)) => {
                eprintln!("denoise: no pictures: {}: {error}", path.display());
                None
            }
        },
    };
    let chart = |timeline: &Timeline| format!("{}{}", timeline.gantt(columns()), timeline.figures());
    Ok((pictures, timeline.filter(|_| args.gantt).map(chart)))
}

fn write_pictures(
    directory: &Path,
    before_after: Option<&BeforeAfter>,
    timeline: Option<&Timeline>,
) -> Result<Pictures, (PathBuf, io::Error)> {
    fs::create_dir_all(directory).map_err(|error| (directory.to_owned(), error))?;
    let mut pictures = Vec::new();
    if let Some(both) = before_after {
        let file = directory.join("before-and-after.png");
        let replaced = file.exists();
        let write = || {
            let mut output = Output::create(Some(&file))?;
            let frame = both.write_png(&mut output)?;
            // Without a frame, the dropped output leaves no file.
            frame.map(|frame| output.commit().map(|()| frame)).transpose()
        };
        if let Some(frame) = write().map_err(|error| (file.clone(), error))? {
            let shows = format!("frame {frame}: the left half as it was read, the right half denoised");
            pictures.push(Picture {
                file,
                shows,
                replaced,
            });
        }
    }
    if let Some(timeline) = timeline {
        let file = directory.join("timeline.svg");
        let replaced = file.exists();
        write_timeline(timeline, &file).map_err(|error| (file.clone(), error))?;
        let sink = timeline
            .spans()
            .iter()
            .filter(|span| span.label == "sink")
            .count();
        let shows = format!("what ran when, for {sink} frames");
        pictures.push(Picture {
            file,
            shows,
            replaced,
        });
    }
    Ok(Pictures(pictures))
}

/// Writes the timeline in the format of the file's name.
fn write_timeline(timeline: &Timeline, path: &Path) -> io::Result<()> {
    let mut output = Output::create(Some(path))?;
    if is_svg(path) {
        timeline.write_svg(&mut output)?;
    } else {
        timeline.write_trace(&mut output)?;
    }
    output.commit()
}

/// Whether the name is a picture's.
pub fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Whether the name is a trace's.
pub fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Width of the terminal, if the shell sets `COLUMNS`.
fn columns() -> usize {
    let columns = std::env::var("COLUMNS").ok();
    columns.and_then(|columns| columns.parse().ok()).unwrap_or(100)
}
