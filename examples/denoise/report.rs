//! What a run took, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::failure::Stage;
use super::filter::Filter;

/// Time spent in each stage, summed over all frames, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Reading; absent where times are modelled, as the model knows no disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Copies to the device.
    pub upload: f64,
    /// The kernel.
    pub kernel: f64,
    /// Copies from the device.
    pub download: f64,
    /// Writing; absent as reading is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<f64>,
}

impl Parts {
    fn each(&self) -> impl Iterator<Item = (Stage, f64)> {
        let parts = [
            (Stage::Read, self.read),
            (Stage::Upload, Some(self.upload)),
            (Stage::Kernel, Some(self.kernel)),
            (Stage::Download, Some(self.download)),
            (Stage::Write, self.write),
        ];
        parts.into_iter().filter_map(|(stage, ms)| Some((stage, ms?)))
    }

    fn sum(&self) -> f64 {
        self.each().map(|(_, ms)| ms).sum()
    }

    /// The less of both for each stage: its time with the least waiting in it.
    fn least(&self, other: &Self) -> Self {
        let least = |a: Option<f64>, b: Option<f64>| Some(a?.min(b?));
        Self {
            read: least(self.read, other.read),
            upload: self.upload.min(other.upload),
            kernel: self.kernel.min(other.kernel),
            download: self.download.min(other.download),
            write: least(self.write, other.write),
        }
    }

    /// The stage that takes longest: however well all overlap, a run takes no less.
    fn longest(&self) -> (Stage, f64) {
        self.each()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("three stages are always there")
    }

    fn longest_on_device(&self) -> (Stage, f64) {
        Self {
            read: None,
            write: None,
            ..*self
        }
        .longest()
    }
}

/// One pass over the video.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// Frames that went through.
    pub frames: u64,
    /// From the start of the first stage on the first frame to the end of the last on the last.
    pub wall_ms: f64,
    /// Where the time went.
    pub parts: Parts,
}

/// What is worked out from a [`Pass`]. A ratio with nothing below it (no frames) is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    frames: u64,
    wall_ms: f64,
    parts_ms: Parts,
    frames_per_second: Option<f64>,
    /// Luma copied to and from the device.
    gigabytes_per_second: Option<f64>,
    kernel_utilisation: Option<f64>,
    /// 1 - wall / sum of parts: 0 where stages take turns, 0.8 where all five are always busy.
    overlap_ratio: Option<f64>,
}

impl Figures {
    fn new(pass: &Pass, luma_bytes: usize) -> Self {
        let seconds = pass.wall_ms / 1e3;
        let copied_bytes = 2.0 * luma_bytes as f64 * pass.frames as f64;
        Self {
            frames: pass.frames,
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

/// Whether times were measured or come from the simulated device's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Times {
    /// The host's clock for the wall time, reading and writing; CUDA events for the rest.
    Measured,
    /// All of them, from the first upload to the last download. Reading and writing are not
    /// modelled.
    Modelled,
}

/// The overlapped pass against the serial one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Bytes in which both results agree: all of them, or there would be an error instead.
    identical_bytes: u64,
    serial: Figures,
    speed_up: Option<f64>,
    /// The serial pass's wall time over that of the longest stage: what perfect overlap would give.
    speed_up_bound: Option<f64>,
    /// The longest stage. Each counts with the less of its times in the two passes, as an event
    /// before work given to an idle stream also counts the time that it takes to give it.
    bound: Bound,
    /// The longest of the three stages of the device: what a faster disk would leave.
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

/// What was done, and where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// Whether times were measured.
    pub times: Times,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// What the filter was told.
    pub filter: Filter,
    /// Buffers to each ring.
    pub buffers: usize,
}

/// Everything that is told of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    #[serde(flatten)]
    subject: Subject,
    overlapped: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
    #[serde(skip)]
    chart: Option<String>,
}

impl Report {
    /// Works out the figures. `serial` comes with the number of bytes that were compared.
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
            chart: None,
        }
    }

    /// With a chart of the overlapped pass, for people.
    pub fn with_chart(self, chart: Option<String>) -> Self {
        Self { chart, ..self }
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and text")
    }

    /// How many times faster than one stream the overlapped pass was, if that was asked and there
    /// were frames.
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
            Times::Measured => "times are measured: copies and kernels by CUDA events, all else by the host's clock\n",
            Times::Modelled => {
                "times are MODELLED by the simulated device, not measured, from the first upload to the last download; \
                 reading and writing are not modelled\n"
            }
        })?;
        writeln!(f, "\noverlapped on three streams, {buffers} buffers a ring")?;
        write!(f, "{}", self.overlapped)?;
        if let Some(chart) = &self.chart {
            write!(f, "\n{chart}")?;
        }
        let Some(comparison) = &self.comparison else {
            return Ok(());
        };
        writeln!(f, "\nserial, one stream")?;
        write!(f, "{}", comparison.serial)?;
        writeln!(
            f,
            "\nresults    identical, all {} bytes",
            comparison.identical_bytes
        )?;
        if let (Some(speed_up), Some(most)) = (comparison.speed_up, comparison.speed_up_bound) {
            let Bound { stage, ms } = comparison.bound;
            writeln!(
                f,
                "speed-up   {speed_up:.2} of at most {most:.2}, bound by {stage} ({ms:.3} ms)"
            )?;
        }
        let Bound { stage, ms } = comparison.device_bound;
        if stage != comparison.bound.stage {
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
                "  kernel utilisation {:.1} %, overlap ratio {overlap:.2}",
                utilisation * 100.0
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
            read: Some(40.0),
            upload: 10.0,
            kernel: 80.0,
            download: 10.0,
            write: Some(60.0),
        };
        Pass {
            frames: 100,
            wall_ms,
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
    fn modelled_times_say_so_and_leave_the_disk_out() {
        let mut pass = pass(100.0);
        (pass.parts.read, pass.parts.write) = (None, None);
        let report = Report::new(subject(Times::Modelled), &pass, None);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["times"], "modelled");
        assert_eq!(json["overlapped"]["overlap_ratio"], 0.0);
        assert!(json["overlapped"]["parts_ms"].get("read").is_none() && json.get("comparison").is_none());
        assert!(report.to_string().contains("times are MODELLED"));
    }

    #[test]
    fn no_frames_make_no_nonsense() {
        let empty = Pass::default();
        let report = Report::new(subject(Times::Modelled), &empty, Some((&empty, 40)));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(json["overlapped"]["frames_per_second"].is_null());
        assert!(json["comparison"]["speed_up"].is_null());
        assert!(!report.to_string().contains("NaN") && !report.to_string().contains("inf"));
    }
}
