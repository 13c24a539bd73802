//! Options that every example has: the device to run on, and the source of a report's times.

use std::fmt;

use clap::ValueEnum;
use cuda_rt::Device;

/// The device to compute on.
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

/// The source of a report's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Clocks, read while a GPU ran the work.
    Measured,
    /// The simulated device's model.
    Modelled,
}

impl Times {
    /// The source of the times of work on `gpu`.
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
