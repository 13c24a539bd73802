//! What every example asks: where to run.

use std::fmt;

use clap::ValueEnum;
use cuda_rt::Device;

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// The first GPU, or the simulated device if there is none.
    #[default]
    Auto,
    /// The first GPU.
    Cuda,
    /// The simulated device.
    Sim,
}

/// Where a report's times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// A GPU ran it, and clocks were read.
    Measured,
    /// The simulated device's model says so.
    Modelled,
}

impl Times {
    /// Those of `gpu`.
    pub fn of<D>(gpu: &Device<D>) -> Self {
        if gpu.is_simulated() {
            Self::Modelled
        } else {
            Self::Measured
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "times are measured",
            Self::Modelled => "times are modelled: nothing ran on a GPU",
        })
    }
}
