//! Devices over contexts of cust.

use std::sync::Arc;

use cust::context::Context;

use crate::device::{Device, InstanceKey, checked, instance, no_gpu, prepared};
use crate::error::{OpenError, Result};
use crate::order::clocks::Clocks;
use crate::tag::Scoped;
use cuda_rt_driver::Backend;
use cuda_rt_driver_cuda::cust::{CustDriver, ordinal};

impl Device {
    /// Opens GPU 0 over a context of cust, through cust's objects, for the rest of the process. A
    /// device that is already open does not change: it uses the same primary context
    /// (`cuDevicePrimaryCtxRetain`).
    ///
    /// The device keeps the context. Code that uses cust continues with clones of it, or with the
    /// thread's current context.
    ///
    /// # Errors
    /// [`OpenError::AlreadyBound`] if the context is another GPU's, [`OpenError::AlreadySimulated`]
    /// once [`open_or_simulate`](Self::open_or_simulate) has fallen back, and [`OpenError::NoGpu`]
    /// if the GPU cannot be used.
    pub fn from_cust(context: Context) -> Result<Self, OpenError> {
        let asked = ordinal(&context).map_err(no_gpu)?;
        if asked != 0 {
            let (tag, bound) = ("Gpu<0>", 0);
            return Err(OpenError::AlreadyBound { tag, bound, asked });
        }
        let core = instance(InstanceKey::Ordinal(0), || {
            let driver = CustDriver::over(context).map_err(no_gpu)?;
            checked(driver).map_err(no_gpu)
        })?;
        if core.driver().properties().backend == Backend::Simulated {
            let tag = "Gpu<0>".to_owned();
            return Err(OpenError::AlreadySimulated { tag });
        }
        Ok(Self::from_core(core))
    }

    /// Runs `body` with the GPU of a context of cust, as an instance of its own, like
    /// [`with_gpu`](Self::with_gpu). The instance's type exists in `body` only, so none of its
    /// values leaves `body`.
    ///
    /// # Errors
    /// [`OpenError::NoGpu`] if the GPU cannot be used.
    pub fn with_cust<R>(
        context: Context,
        body: impl for<'id> FnOnce(Device<Scoped<'id>>) -> R,
    ) -> Result<R, OpenError> {
        let driver: Arc<CustDriver> = CustDriver::over(context).map_err(no_gpu)?;
        let driver = checked(driver).map_err(no_gpu)?;
        let core = prepared(driver, "Device::with_cust", Clocks::of_process())?;
        Ok(body(Device::from_core(core)))
    }
}
