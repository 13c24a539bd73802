//! Reports of a run's times, for readers and for programs.

use std::fmt;

use serde::Serialize;

use super::copy::CopyFigures;
use super::failure::Stage;
use super::filter::Filter;
use super::pictures::Pictures;

/// Time in each stage, summed over all frames, in milliseconds. If several threads read or write,
/// their time is the mean of the threads: the least in which they could have done their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Reading.
    pub read: f64,
    /// Copies to the device.
    pub upload: f64,
    /// The kernel.
    pub kernel: f64,
    /// Copies from the device.
    pub download: f64,
    /// Writing.
    pub write: f64,
}

impl Parts {
    fn each(&self) -> [(Stage, f64); 5] {
        [
            (Stage::Read, self.read),
            (Stage::Upload, self.upload),
            (Stage::Kernel, self.kernel),
            (Stage::Download, self.download),
            (Stage::Write, self.write),
        ]
    }

    fn sum(&self) -> f64 {
        self.each().iter().map(|(_, ms)| ms).sum()
    }

    /// The smaller time of each stage, which includes the least waiting.
    fn least(&self, other: &Self) -> Self {
        Self {
            read: self.read.min(other.read),
            upload: self.upload.min(other.upload),
            kernel: self.kernel.min(other.kernel),
            download: self.download.min(other.download),
            write: self.write.min(other.write),
        }
    }

    /// The stage that takes longest. A run takes at least as long, however well its stages overlap.
    fn longest(&self) -> (Stage, f64) {
        self.each()
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("five stages are always there")
    }

    fn longest_on_device(&self) -> (Stage, f64) {
        Self {
            read: 0.0,
            write: 0.0,
            ..*self
        }
        .longest()
    }
}

/// One pass over the video.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// Number of frames.
    pub frames: u64,
    /// Time from the first stage's start on the first frame to the last stage's end on the last
    /// frame.
    pub wall_ms: f64,
    /// Number of threads that read.
    pub readers: usize,
    /// Number of threads that write.
    pub writers: usize,
    /// Time of the pass by the real clock, also on a simulated device.
    pub elapsed_ms: f64,
    /// Time of each stage.
    pub parts: Parts,
}

/// Figures computed from a [`Pass`]. A ratio whose denominator is 0 (no frames) is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    frames: u64,
    readers: usize,
    writers: usize,
    wall_ms: f64,
    parts_ms: Parts,
    frames_per_second: Option<f64>,
    /// Rate of luma copied to and from the device, in sum.
    gigabytes_per_second: Option<f64>,
    kernel_utilisation: Option<f64>,
    /// 1 - wall / sum of parts: 0 if stages take turns, 0.8 if all five are always busy, and below
    /// 0 if they pause more than they overlap.
    overlap_ratio: Option<f64>,
}

impl Figures {
    fn new(pass: &Pass, luma_bytes: usize) -> Self {
        let seconds = pass.wall_ms / 1e3;
        let copied_bytes = 2.0 * luma_bytes as f64 * pass.frames as f64;
        Self {
            frames: pass.frames,
            readers: pass.readers,
            writers: pass.writers,
            wall_ms: pass.wall_ms,
            parts_ms: pass.parts,
            frames_per_second: ratio(pass.frames as f64, seconds),
            gigabytes_per_second: ratio(copied_bytes / 1e9, seconds),
            kernel_utilisation: ratio(pass.parts.kernel, pass.wall_ms),
            overlap_ratio: ratio(pass.wall_ms, pass.parts.sum()).map(|ratio| 1.0 - ratio),
        }
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// The source of times: measured, or from the simulated device's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Times {
    /// The host's clock measured the wall time, reading and writing; CUDA events measured the rest.
    Measured,
    /// The model gave all times. Reading and writing are those of a modelled disk.
    Modelled,
}

/// Comparison of the overlapped pass with the serial pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of bytes of both results, which are equal. A difference would be an error.
    identical_bytes: u64,
    serial: Figures,
    speed_up: Option<f64>,
    /// The speed-up of perfect overlap: the serial wall time over the longest stage's time.
    speed_up_bound: Option<f64>,
    /// The longest stage. Each stage counts with the smaller of its times in the two passes: on an
    /// idle stream, events also count the time that the host needs to enqueue the work.
    bound: Bound,
    /// The longest of the device's three stages, which is the bound with a faster disk.
    device_bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Bound {
    stage: Stage,
    ms: f64,
}

impl From<(Stage, f64)> for Bound {
    fn from((stage, ms): (Stage, f64)) -> Self {
        Self { stage, ms }
    }
}

/// The run's settings and device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// The source of the times.
    pub times: Times,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// The filter's settings.
    pub filter: Filter,
    /// Number of buffers in each ring.
    pub buffers: usize,
}

/// A report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    #[serde(flatten)]
    subject: Subject,
    overlapped: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<CopyFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pictures: Option<Pictures>,
    #[serde(skip)]
    chart: Option<String>,
}

impl Report {
    /// Computes the figures. `serial` comes with the number of compared bytes.
    pub fn new(subject: Subject, overlapped: &Pass, serial: Option<(&Pass, u64)>) -> Self {
        let (width, height) = subject.size;
        let luma_bytes = width as usize * height as usize;
        let comparison = serial.map(|(serial, identical_bytes)| {
            let parts = serial.parts.least(&overlapped.parts);
            Comparison {
                identical_bytes,
                serial: Figures::new(serial, luma_bytes),
                speed_up: ratio(serial.wall_ms, overlapped.wall_ms),
                speed_up_bound: ratio(serial.wall_ms, parts.longest().1),
                bound: parts.longest().into(),
                device_bound: parts.longest_on_device().into(),
            }
        });
        Self {
            overlapped: Figures::new(overlapped, luma_bytes),
            subject,
            comparison,
            copy: None,
            pictures: None,
            chart: None,
        }
    }

    /// Adds a chart of the overlapped pass, for readers.
    pub fn with_chart(self, chart: Option<String>) -> Self {
        Self { chart, ..self }
    }

    /// Adds the comparison with a copy of the input.
    pub fn with_copy(self, copy: Option<CopyFigures>) -> Self {
        Self { copy, ..self }
    }

    /// Adds the pictures that were written.
    pub fn with_pictures(self, pictures: Option<Pictures>) -> Self {
        Self { pictures, ..self }
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and text")
    }

    /// Speed-up of the overlapped pass over one stream, if it was compared and there were frames.
    pub fn speed_up(&self) -> Option<f64> {
        self.comparison.as_ref()?.speed_up
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject {
            device,
            times,
            size: (width, height),
            filter,
            buffers,
        } = &self.subject;
        let frames = self.overlapped.frames;
        writeln!(f, "{frames} frames of {width}x{height} on {device}; {filter}")?;
        f.write_str(match times {
            Times::Measured => {
                "times are measured: copies and kernels by CUDA events, all else by the host's clock\n"
            }
            Times::Modelled => {
                "times are MODELLED by the simulated device, not measured; the modelled disk reads and \
                 writes 4.2 GB/s\n"
            }
        })?;
        write!(f, "\noverlapped on three streams, {buffers} buffers a ring")?;
        match (self.overlapped.readers, self.overlapped.writers) {
            (0..=1, 0..=1) => writeln!(f)?,
            (readers, writers) => writeln!(f, ", threads: {readers} read, {writers} write")?,
        }
        write!(f, "{}", self.overlapped)?;
        if let Some(chart) = &self.chart {
            write!(f, "\n{chart}")?;
        }
        if let Some(comparison) = &self.comparison {
            write!(f, "{comparison}")?;
        }
        if let Some(copy) = &self.copy {
            write!(f, "{copy}")?;
        }
        if let Some(pictures) = &self.pictures {
            write!(f, "\n{pictures}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nserial, one stream")?;
        write!(f, "{}", self.serial)?;
        writeln!(f, "\nresults    identical, all {} bytes", self.identical_bytes)?;
        if let (Some(speed_up), Some(most)) = (self.speed_up, self.speed_up_bound) {
            let Bound { stage, ms } = self.bound;
            writeln!(
                f,
                "speed-up   {speed_up:.2} of at most {most:.2}, bound by {stage} ({ms:.3} ms)"
            )?;
        }
        let Bound { stage, ms } = self.device_bound;
        if stage != self.bound.stage {
            writeln!(
                f,
                "           on the device alone, the bound is {stage} ({ms:.3} ms)"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  wall     {:10.3} ms", self.wall_ms)?;
        if let (Some(frames), Some(gigabytes)) = (self.frames_per_second, self.gigabytes_per_second) {
            write!(f, "   {frames:.1} frames/s, {gigabytes:.2} GB/s copied")?;
        }
        writeln!(f)?;
        for (stage, ms) in self.parts_ms.each() {
            writeln!(f, "  {stage:<8} {ms:10.3} ms")?;
        }
        if let (Some(utilisation), Some(overlap)) = (self.kernel_utilisation, self.overlap_ratio) {
            writeln!(
                f,
                "  kernel utilisation {:.1} %, {}",
                utilisation * 100.0,
                match overlap {
                    ..0.0 => "stages paused more than they overlapped".to_owned(),
                    _ => format!("overlap ratio {overlap:.2}"),
                }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(times: Times) -> Subject {
        let filter = Filter {
            radius: 3,
            sigma_space: 2.0,
            sigma_range: 30.0,
        };
        Subject {
            device: "a GPU".into(),
            times,
            size: (1000, 500),
            filter,
            buffers: 2,
        }
    }

    fn pass(wall_ms: f64) -> Pass {
        let parts = Parts {
            read: 40.0,
            upload: 10.0,
            kernel: 80.0,
            download: 10.0,
            write: 60.0,
        };
        Pass {
            frames: 100,
            readers: 1,
            writers: 1,
            wall_ms,
            elapsed_ms: wall_ms,
            parts,
        }
    }

    #[test]
    fn figures_follow_their_definitions() {
        let figures = Figures::new(&pass(100.0), 500_000);
        assert_eq!(figures.frames_per_second, Some(1000.0));
        assert_eq!(figures.gigabytes_per_second, Some(1.0));
        assert_eq!(figures.kernel_utilisation, Some(0.8));
        assert_eq!(figures.overlap_ratio, Some(0.5));
    }

    #[test]
    fn the_bound_is_the_longest_stage_at_its_best() {
        let (overlapped, mut serial) = (pass(100.0), pass(200.0));
        serial.parts.upload = 90.0;
        let report = Report::new(subject(Times::Measured), &overlapped, Some((&serial, 12)));
        let comparison = report.comparison.unwrap();
        assert_eq!(
            (comparison.speed_up, comparison.speed_up_bound),
            (Some(2.0), Some(2.5))
        );
        let text = report.to_string();
        assert!(
            text.contains("speed-up   2.00 of at most 2.50, bound by kernel (80.000 ms)"),
            "{text}"
        );
        assert!(
            text.contains("times are measured") && text.contains("identical, all 12 bytes"),
            "{text}"
        );
    }

    #[test]
    fn a_report_marks_modelled_times() {
        let report = Report::new(subject(Times::Modelled), &pass(100.0), None);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["times"], "modelled");
        assert_eq!(json["overlapped"]["overlap_ratio"], 0.5);
        assert!(json.get("comparison").is_none() && json.get("pictures").is_none());
        assert!(report.to_string().contains("times are MODELLED"));
    }

    #[test]
    fn a_report_without_frames_has_no_nan() {
        let empty = Pass::default();
        let report = Report::new(subject(Times::Modelled), &empty, Some((&empty, 40)));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(json["overlapped"]["frames_per_second"].is_null());
        assert!(json["comparison"]["speed_up"].is_null());
        assert!(!report.to_string().contains("NaN") && !report.to_string().contains("inf"));
    }
}
