//! Times of work on the device and on the host: measured, or modelled by the simulated device.

use std::time::{Duration, Instant};

use cuda_rt::simulator::Simulator;
use cuda_rt::{Device, FinishedEvent, Live, Result, Stream, StreamTag, TimedEvent};

use super::report::{Parts, Pass};

/// The calling thread's clock: the real one, or the simulated device's model of it.
#[derive(Clone, Debug)]
pub struct HostClock {
    start: Instant,
    simulator: Option<Simulator>,
}

/// Rate of the modelled disk, each way, in bytes for each ns. Beside an H200, frames were read at
/// 4.24 GB/s from a file in memory, and written at 4.16 GB/s (docs/RESULTS.md).
const DISK_BYTES_PER_NS: f64 = 4.2;

impl HostClock {
    /// The clock of the host of `gpu`.
    pub fn of<D>(gpu: &Device<D>) -> Self {
        Self {
            start: Instant::now(),
            simulator: gpu.simulator().cloned(),
        }
    }

    /// The time now.
    pub fn now(&self) -> Duration {
        match &self.simulator {
            None => self.start.elapsed(),
            Some(simulator) => Duration::from_nanos(simulator.host_now_ns()),
        }
    }

    /// Tells the clock that the calling thread has read or written `bytes` of a file. A model has
    /// no disk of its own, and a real clock has run meanwhile.
    pub fn moved(&self, bytes: usize) {
        if let Some(simulator) = &self.simulator {
            simulator.spend_host_ns((bytes as f64 / DISK_BYTES_PER_NS) as u64);
        }
    }
}

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
#[derive(Debug, Default)]
pub struct DeviceClock {
    pass: Pass,
}

impl DeviceClock {
    /// Adds a frame's upload, kernel and download. Frames come in order, and their work must be
    /// over, so the call does not block.
    pub fn add<D: Live>(&mut self, [upload, kernel, download]: [Span<D>; 3]) -> Result<()> {
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
        self.pass.frames += 1;
        Ok(())
    }

    /// Number of frames added so far.
    pub fn frames(&self) -> u64 {
        self.pass.frames
    }

    /// The times of all frames, with the host's times.
    pub fn pass(&self, wall: Duration, reading: Duration, writing: Duration) -> Pass {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let mut pass = self.pass;
        pass.wall_ms = ms(wall);
        (pass.readers, pass.writers) = (1, 1);
        (pass.parts.read, pass.parts.write) = (ms(reading), ms(writing));
        pass
    }
}
