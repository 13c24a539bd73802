//! Timelines of the overlapped pass, as pictures, traces and charts.

use std::path::Path;

use cuda_rt::timeline::Timeline;
use cuda_rt::{Device, Live};

use super::args::Args;
use super::failure::Failure;
use super::output::Output;

/// Runs `work`, and records it if the command line asks for its timeline. Writes the file, and
/// returns the chart.
///
/// # Errors
/// Errors of `work`, of the device and of the file.
pub fn recorded<D: Live, T>(
    gpu: &Device<D>,
    args: &Args,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Option<String>), Failure> {
    if args.timeline.is_none() && !args.gantt {
        return Ok((work()?, None));
    }
    let recording = gpu.record_timeline()?;
    let done = work()?;
    let timeline = recording.finish()?;
    if let Some(path) = &args.timeline {
        write(&timeline, path).map_err(|source| Failure::Output {
            name: path.display().to_string(),
            source,
        })?;
    }
    let chart = || format!("{}{}", timeline.gantt(columns()), timeline.figures());
    Ok((done, args.gantt.then(chart)))
}

/// Writes the timeline in the format of the file's name.
fn write(timeline: &Timeline, path: &Path) -> std::io::Result<()> {
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
