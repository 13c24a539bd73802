//! [`Filter`]: the bilateral filter and its settings.

use std::fmt;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{DeviceSlice, Grid2, Live, ReadBy, Result, Stream, StreamTag, WriteBy};
use device_kernels::bilateral;
use serde::Serialize;

/// A bilateral filter. It averages samples that are near each other and similar, so it removes
/// noise and keeps edges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Filter {
    /// Radius of the window, in pixels.
    pub radius: u32,
    /// Standard deviation over distance, in pixels.
    pub sigma_space: f32,
    /// Standard deviation over difference, in steps of a sample.
    pub sigma_range: f32,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            radius,
            sigma_space,
            sigma_range,
        } = self;
        write!(
            f,
            "bilateral filter of radius {radius}, sigmas {sigma_space} px and {sigma_range} steps"
        )
    }
}

impl Filter {
    /// Settings of a simulated device that takes the same time for this filter as an H200: 0.65 ps
    /// for each tap of each sample. This is the median over the radii 1 to 16 in docs/RESULTS.md.
    pub fn simulated(&self) -> SimConfig {
        const NS_PER_TAP: f64 = 0.000_65;
        let side = f64::from(2 * self.radius + 1);
        SimConfig::default()
            .kernel_ns_per_thread("device_kernels::bilateral::bilateral", NS_PER_TAP * side * side)
    }

    /// Denoises a plane of `width` × `height` samples, stored row by row. Stream-ordered.
    ///
    /// # Errors
    /// Errors of the launch.
    pub fn launch<S>(
        &self,
        stream: &Stream<S>,
        (width, height): (u32, u32),
        noisy: &DeviceSlice<u8, impl ReadBy<S>>,
        clean: &mut DeviceSlice<u8, impl WriteBy<S>>,
    ) -> Result<()>
    where
        S: StreamTag,
    {
        let grid = Grid2::covering(width as usize, height as usize);
        let Self {
            radius,
            sigma_space,
            sigma_range,
        } = *self;
        bilateral(
            stream,
            grid,
            noisy,
            clean,
            width,
            height,
            radius,
            sigma_space,
            sigma_range,
        )
    }

    /// Loads the kernel's code by a first launch, on a plane of one sample. Blocks the host.
    ///
    /// # Errors
    /// Errors of the launch.
    pub fn warm_up<S: StreamTag>(&self, stream: &Stream<S>) -> Result<()>
    where
        S::Device: Live,
    {
        let mut sample = stream.alloc_zeroed(2)?;
        let (noisy, clean) = sample.split_at_mut(1);
        self.launch(stream, (1, 1), noisy, clean)?;
        stream.synchronize()
    }
}
