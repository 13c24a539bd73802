//! [`AnyDevice`]: devices that are found at run time.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Device, InstanceKey, cuda, instance, no_gpu};
use crate::device::core::DeviceCore;
use crate::error::{During, OpenError, Result};
use crate::tag::{DeviceTag, Live, Scoped};
use cuda_rt_driver::{Backend, Properties};

/// A device that is found at run time, for example by its ordinal. The value says which device it
/// is, so it can be in a struct, a `Vec` or a map.
///
/// A [`Device`] is named by its type, and memory of two devices by two types. An `AnyDevice` is
/// compared when it is used. [`with`](Self::with) lends a typed handle to a closure, and everything
/// that a device can do is there. What leaves a closure is [`Kept`](crate::Kept) by a stream.
///
/// It is a device tag too: `Idle<AnyDevice>` is the place of memory whose device is known at run
/// time only. No [`Device`] and no [`Stream`](crate::Stream) has this tag, so no call takes such
/// memory without a comparison. Counterexample: were there a `Device<AnyDevice>` for each ordinal,
/// a stream of GPU 1 would accept memory of GPU 0, because the types are equal
/// ([H36](crate::hazards#h36)).
///
/// The device of ordinal `N` is the instance of [`Gpu<N>`](crate::Gpu): what streams keep can go to
/// tags of that device, and come from them. It is cheap to clone and usable from any thread.
///
/// ```
/// use cuda_rt::{AnyDevice, Priority};
///
/// let devices = (0..2).map(AnyDevice::open_or_simulate).collect::<Result<Vec<_>, _>>()?;
/// let mut frames = Vec::new();
/// for (index, device) in devices.iter().enumerate() {
///     let stream = device.create_stream(&format!("worker {index}"), Priority::Low)?;
///     frames.push(stream.run(|s| Ok::<_, cuda_rt::Error>(s.keep(s.alloc_zeroed::<f32>(1024)?)))?);
/// }
/// assert_eq!(frames[1].stream().device(), devices[1]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyDevice {
    core: Arc<DeviceCore>,
}

// SAFETY: no device instance has this tag: no function makes a `Device<AnyDevice>`, nor a stream
// whose tag is on it. So no two instances share it. Memory of this tag is in a `Kept` or a
// `KeptGraph`, which knows its stream (KEPT-1). Other values of this tag hold no memory.
unsafe impl DeviceTag for AnyDevice {}

impl fmt::Debug for AnyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties = self.properties();
        f.debug_struct("AnyDevice")
            .field("name", &properties.name)
            .field("ordinal", &properties.ordinal)
            .finish()
    }
}

/// Names the device in errors.
impl fmt::Display for AnyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Properties { name, ordinal, .. } = self.properties();
        write!(f, "GPU {ordinal} ({name})")
    }
}

/// Two values are equal if they are one device *instance*, with the same streams and memory. Two
/// instances of one GPU are not equal.
impl PartialEq for AnyDevice {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

impl Eq for AnyDevice {}

impl Hash for AnyDevice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.core).hash(state);
    }
}

/// The same instance, without its type. A scoped device may so leave its closure: a value compares
/// instances, and lives as long as it is held.
impl<D: Live> From<&Device<D>> for AnyDevice {
    fn from(device: &Device<D>) -> Self {
        Self::from_core(Arc::clone(device.core()))
    }
}

impl AnyDevice {
    pub(crate) fn from_core(core: Arc<DeviceCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// Opens the GPU of this ordinal (`cuDevicePrimaryCtxRetain`). Every call with this ordinal,
    /// from every thread, returns the same instance, and so does
    /// [`Device::open_gpu`](Device::open_gpu). The first call blocks while CUDA starts.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open(ordinal: usize) -> Result<Self, OpenError> {
        let core = instance(InstanceKey::Ordinal(ordinal), || cuda(ordinal).map_err(no_gpu))?;
        if core.driver().properties().backend == Backend::Simulated {
            return Err(OpenError::AlreadySimulated {
                tag: format!("Gpu<{ordinal}>"),
            });
        }
        Ok(Self::from_core(core))
    }

    /// Lends a typed handle of the device to `body`. The brand `'id` is fresh at each call, so no
    /// memory leaves `body`, except what a stream [keeps](crate::Stream::keep). Calls nothing of
    /// the driver.
    ///
    /// # Hazards prevented
    /// [H23](crate::hazards#h23), [H36](crate::hazards#h36): two devices have two brands, also
    /// where one call is inside the other.
    ///
    /// ```
    /// # use cuda_rt::AnyDevice;
    /// let (first, second) = (AnyDevice::open_or_simulate(0)?, AnyDevice::open_or_simulate(1)?);
    /// first.with(|a| second.with(|b| println!("{:?}", a.peer_access(b))));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn with<T>(&self, body: impl for<'id> FnOnce(&Device<Scoped<'id>>) -> T) -> T {
        body(&Device::from_core(Arc::clone(&self.core)))
    }

    /// The fixed properties of the device. Calls nothing of the driver.
    pub fn properties(&self) -> &Properties {
        self.core.driver().properties()
    }

    /// Whether this is a simulated device.
    pub fn is_simulated(&self) -> bool {
        self.properties().backend == Backend::Simulated
    }

    /// Blocks the host until all work of this device instance is done, as
    /// [`Device::synchronize`] does.
    ///
    /// # Errors
    /// As [`Device::synchronize`].
    ///
    /// ```
    /// use cuda_rt::{AnyDevice, Priority};
    ///
    /// let gpu = AnyDevice::open_or_simulate(0)?;
    /// println!("{} (simulated: {})", gpu.properties(), gpu.is_simulated());
    /// let stream = gpu.create_stream("worker", Priority::Normal)?;
    /// let kept = stream.run(|s| s.alloc_zeroed::<u8>(64).map(|data| s.keep(data)))?;
    /// gpu.synchronize()?;
    /// assert!(stream.is_done()?);
    /// assert_eq!((stream.name(), kept.stream() == &stream), ("worker", true));
    /// assert_eq!(stream.device(), gpu);
    /// stream.synchronize()?; // this stream only
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize().during("AnyDevice::synchronize")
    }
}
