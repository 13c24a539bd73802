//! Kernels from modules that cust loaded.

use cust::module::Module;

use super::stream::cuda;
use crate::device::Device;
use crate::error::{During, Result};
use crate::tag::Live;
use cuda_rt_driver::ModuleImage;
use cuda_rt_driver_cuda::cust::handles;

impl<D: Live> Device<D> {
    /// Uses a module that cust loaded (PTX, a cubin or a fatbin) for the kernels that refer to
    /// `image`, instead of the image's own PTX. The module is never unloaded. Returns whether the
    /// module is used. If those kernels already have a module on this device, the call drops
    /// `module` and returns false.
    ///
    /// # Safety
    /// The module was loaded in the primary context of this device, and holds the kernels that
    /// refer to `image`, with the parameters that they state.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) on a simulated device; the module is dropped.
    pub unsafe fn adopt_cust_module(&self, image: &'static ModuleImage, module: Module) -> Result<bool> {
        let driver = cuda(self.core()).during("Device::adopt_cust_module")?;
        let raw = handles::into_raw_module(module);
        // SAFETY: the contract of `adopt_module` is the same. Cust gave the module up, so nothing
        // unloads it.
        let used = unsafe { driver.adopt_module(image, raw) };
        if !used {
            // SAFETY: the handle came from cust's module, and nothing uses it.
            drop(std::mem::ManuallyDrop::into_inner(unsafe {
                handles::module(raw)
            }));
        }
        Ok(used)
    }
}
