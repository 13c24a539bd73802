//! Simulated devices: opened, and controlled. Only here does the runtime make one.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{AnyDevice, Device, InstanceKey, cuda, instance, is_absent, no_gpu, prepared};
use crate::device::core::DeviceCore;
use crate::error::OpenError;
use crate::order::clocks::Clocks;
use crate::tag::{Gpu, Scoped};
use cuda_rt_simulator::{SimConfig, SimDriver, Simulator};

/// One more device of the process's simulated host. The first call makes the host, and so does the
/// next one if the first device could not be opened.
fn simulated_gpu(config: SimConfig) -> Arc<SimDriver> {
    /// The host's first device. Open devices are never closed.
    static FIRST: Mutex<Weak<SimDriver>> = Mutex::new(Weak::new());
    // The value is consistent after any panic: it changes by one store.
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = first.upgrade() {
        return first.another();
    }
    let driver = SimDriver::new(config);
    *first = Arc::downgrade(&driver);
    driver
}

/// The instance of the GPU `ordinal`, or of a simulated device in its place.
fn gpu_or_simulated(ordinal: usize, config: SimConfig) -> Result<Arc<DeviceCore>, OpenError> {
    instance(InstanceKey::Ordinal(ordinal), || match cuda(ordinal) {
        Ok(driver) => Ok(driver),
        Err(error) if is_absent(&error) => Ok(simulated_gpu(config)),
        Err(error) => Err(no_gpu(error)),
    })
}

impl AnyDevice {
    /// Like [`open`](Self::open). If there is no GPU of this ordinal, opens a simulated device in
    /// its place, for the rest of the process, as
    /// [`Device::open_or_simulate_gpu`](Device::open_or_simulate_gpu) does.
    ///
    /// # Errors
    /// As [`Device::open_or_simulate`].
    ///
    /// ```
    /// use cuda_rt::AnyDevice;
    ///
    /// let devices = [AnyDevice::open_or_simulate(0)?, AnyDevice::open_or_simulate(1)?];
    /// assert_ne!(devices[0], devices[1]);
    /// # Ok::<(), cuda_rt::OpenError>(())
    /// ```
    pub fn open_or_simulate(ordinal: usize) -> Result<Self, OpenError> {
        Self::open_or_simulate_with(ordinal, SimConfig::default())
    }

    /// Like [`open_or_simulate`](Self::open_or_simulate), with a configuration for the simulated
    /// host. An existing simulated host keeps its own configuration.
    ///
    /// # Errors
    /// As [`Device::open_or_simulate`].
    pub fn open_or_simulate_with(ordinal: usize, config: SimConfig) -> Result<Self, OpenError> {
        Ok(Self::from_core(gpu_or_simulated(ordinal, config)?))
    }
}

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
        Self::open_or_simulate_gpu_with::<0>(config)
    }

    /// Like [`open_or_simulate`](Self::open_or_simulate), for the GPU of ordinal `N`. So a program
    /// on several GPUs, whose devices live as long as the process, runs on a machine without GPUs.
    ///
    /// All devices that the process simulates this way belong to one simulated host: they exchange
    /// data with each other, in one adversarial order, and one checker follows them. The first call
    /// that simulates a device sets the configuration of the host. If the machine has GPUs, but
    /// fewer than `N` + 1, only the missing ones are simulated. A simulated device and a GPU
    /// exchange nothing: see [`count`](Self::count).
    ///
    /// # Errors
    /// As [`open_or_simulate`](Self::open_or_simulate).
    ///
    /// ```
    /// use cuda_rt::{Device, Gpu};
    /// # cuda_rt::streams! { pub Compute; }
    ///
    /// let (first, second) = (Device::open_or_simulate()?, Device::open_or_simulate_gpu::<1>()?);
    /// let compute = second.stream::<Compute<Gpu<1>>>()?;
    /// std::thread::spawn(move || compute.alloc_zeroed::<f32>(1024).map(drop)).join().unwrap()?;
    /// if first.is_simulated() {
    ///     println!("{:?}", first.peer_access(&second)?);
    /// }
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn open_or_simulate_gpu<const N: usize>() -> Result<Device<Gpu<N>>, OpenError> {
        Self::open_or_simulate_gpu_with::<N>(SimConfig::default())
    }

    /// Like [`open_or_simulate_gpu`](Self::open_or_simulate_gpu), with a configuration for the
    /// simulated host. An existing simulated host keeps its own configuration.
    ///
    /// # Errors
    /// As [`open_or_simulate`](Self::open_or_simulate).
    pub fn open_or_simulate_gpu_with<const N: usize>(config: SimConfig) -> Result<Device<Gpu<N>>, OpenError> {
        Ok(Device::from_core(gpu_or_simulated(N, config)?))
    }

    /// Runs `body` with a new simulated device. Its type ([`Scoped`]) exists in `body` only, so
    /// none of its values leaves `body`.
    ///
    /// # Errors
    /// [`OpenError::Driver`] if the configuration injects a fault into the start.
    ///
    /// ```
    /// use cuda_rt::Device;
    /// use cuda_rt::simulator::SimConfig;
    ///
    /// let config = SimConfig::default().seed(7);
    /// let name = Device::simulated(config, |gpu| gpu.properties().name.clone())?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn simulated<R>(
        config: SimConfig,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let core = prepared(SimDriver::new(config), "Device::simulated", Clocks::new())?;
        Ok(body(Device::from_core(core)))
    }
}

impl<D> Device<D> {
    /// The controls of a simulated device: its seed, faults
    /// ([`fail_next`](Simulator::fail_next)), counts and modelled times. `None` on a GPU.
    pub fn simulator(&self) -> Option<&Simulator> {
        Simulator::of(&**self.core.tools())
    }

    /// Runs `body` with one more simulated device of the same host, with the same configuration and
    /// a type of its own. The two devices exchange data with
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
        let clocks = match self.core.events().clocks() {
            Some(clocks) => clocks.for_another(),
            // In a capture.
            None => Clocks::new(),
        };
        let core = prepared(simulator.another(), "Device::simulated_peer", clocks)?;
        Ok(body(Device::from_core(core)))
    }
}
