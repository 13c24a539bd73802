//! Simulated devices: opened, and controlled. Only here does the runtime make one.

use std::any::TypeId;

use super::{Device, cuda, instance, is_absent, prepared};
use crate::error::OpenError;
use crate::tag::{Gpu, Scoped};
use cuda_rt_simulator::{SimConfig, SimDriver, Simulator};

impl Device {
    /// Opens GPU 0. If there is no GPU, opens a simulated device in its place, for the rest of the
    /// process. [`is_simulated`](Self::is_simulated) says which it is.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] if there is a GPU that cannot be used (a driver too old, or in a bad
    /// state). A simulated device would hide that.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// println!("{}", gpu.properties().name);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn open_or_simulate() -> Result<Self, OpenError> {
        Self::open_or_simulate_with(SimConfig::default())
    }

    /// Like [`open_or_simulate`](Self::open_or_simulate), with a configuration for the simulated
    /// device. An existing simulated device keeps its own configuration.
    ///
    /// # Errors
    /// As [`open_or_simulate`](Self::open_or_simulate).
    pub fn open_or_simulate_with(config: SimConfig) -> Result<Self, OpenError> {
        let core = instance(TypeId::of::<Gpu<0>>(), || match cuda(0) {
            Ok(driver) => Ok(driver),
            Err(error) if is_absent(&error) => Ok(SimDriver::new(config)),
            Err(error) => Err(OpenError::NoGpu(error)),
        })?;
        Ok(Self::from_core(core))
    }

    /// Runs `body` with a new simulated device, branded so that none of its values leaves `body`.
    ///
    /// # Errors
    /// [`OpenError::Driver`] if the configuration injects a fault into the start.
    ///
    /// ```
    /// use cuda_rt::Device;
    /// use cuda_rt::simulator::SimConfig;
    ///
    /// let name = Device::simulated(SimConfig::default().seed(7), |gpu| gpu.properties().name.clone())?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn simulated<R>(
        config: SimConfig,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let core = prepared(SimDriver::new(config), "Device::simulated")?;
        Ok(body(Device::from_core(core)))
    }
}

impl<D> Device<D> {
    /// The controls of a simulated device: its seed, faults, counts and modelled times.
    pub fn simulator(&self) -> Option<&Simulator> {
        Simulator::of(&**self.core.tools())
    }

    /// Runs `body` with one more simulated device of the same host, with the same configuration and
    /// a brand of its own. The two devices exchange data with
    /// [`copy_from_peer`](crate::Stream::copy_from_peer) and
    /// [`copy_to_peer`](crate::Stream::copy_to_peer).
    ///
    /// # Errors
    /// [`OpenError::NotSimulated`] if this is a GPU. [`with_gpu`](Device::with_gpu) opens other
    /// GPUs.
    ///
    /// ```
    /// use cuda_rt::Device;
    /// use cuda_rt::simulator::SimConfig;
    ///
    /// Device::simulated(SimConfig::default(), |first| {
    ///     first.simulated_peer(|second| println!("{:?}", first.peer_access(&second)))
    /// })??;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn simulated_peer<R>(
        &self,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let simulator = self.simulator().ok_or(OpenError::NotSimulated)?;
        let core = prepared(simulator.another(), "Device::simulated_peer")?;
        Ok(body(Device::from_core(core)))
    }
}
