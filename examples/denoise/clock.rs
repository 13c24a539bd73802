//! Times of work on the device: measured by CUDA events, or modelled by the simulated device.

use std::time::Duration;

use cuda_rt::{Device, FinishedEvent, Live, Result, Stream, StreamTag, TimedEvent};

use super::report::{Parts, Pass};

/// The timing events before and after one piece of work.
#[derive(Debug)]
pub struct Span<D> {
    start: TimedEvent<D>,
    end: TimedEvent<D>,
}

impl<D: Live> Span<D> {
    /// Runs `work`, and records a timing event on the stream before and after it.
    pub fn around<S: StreamTag<Device = D>>(
        stream: &Stream<S>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let start = stream.record_timed_event()?;
        work()?;
        let end = stream.record_timed_event()?;
        Ok(Self { start, end })
    }

    fn reached(self) -> Result<(FinishedEvent<D>, FinishedEvent<D>)> {
        Ok((self.start.synchronize()?, self.end.synchronize()?))
    }
}

/// Adds up the times of frames.
#[derive(Debug)]
pub struct DeviceClock<D> {
    pass: Pass,
    /// The event before the first upload.
    first: Option<FinishedEvent<D>>,
}

impl<D> Default for DeviceClock<D> {
    fn default() -> Self {
        Self {
            pass: Pass::default(),
            first: None,
        }
    }
}

impl<D: Live> DeviceClock<D> {
    /// Adds a frame's upload, kernel and download. Frames come in order, and their work must be
    /// over, so the call does not block.
    pub fn add(&mut self, [upload, kernel, download]: [Span<D>; 3]) -> Result<()> {
        let (upload, kernel, download) = (upload.reached()?, kernel.reached()?, download.reached()?);
        let Parts {
            upload: uploads,
            kernel: kernels,
            download: downloads,
            ..
        } = &mut self.pass.parts;
        for (sum, (start, end)) in [(uploads, &upload), (kernels, &kernel), (downloads, &download)] {
            *sum += f64::from(end.elapsed_ms_since(start)?);
        }
        let first = self.first.get_or_insert(upload.0);
        self.pass.wall_ms = f64::from(download.1.elapsed_ms_since(first)?);
        self.pass.frames += 1;
        Ok(())
    }

    /// Number of frames added so far.
    pub fn frames(&self) -> u64 {
        self.pass.frames
    }

    /// The times of all frames. For a GPU, the host's clock gives `wall`, reading and writing. The
    /// simulated device's model has no disk: its time runs from the first upload to the last
    /// download.
    pub fn pass(&self, gpu: &Device<D>, wall: Duration, reading: Duration, writing: Duration) -> Pass {
        let mut pass = self.pass;
        if !gpu.is_simulated() {
            let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
            pass.wall_ms = ms(wall);
            (pass.parts.read, pass.parts.write) = (Some(ms(reading)), Some(ms(writing)));
        }
        pass
    }
}
