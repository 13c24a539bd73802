//! The driver's calls for kernels: of `#[kernel]`, and of modules that a program loads.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::{CudaDriver, foreign_module, launch, occupancy};
use cuda_rt_driver::{DriverResult, FunctionLaunch, Kernels, RawFunction, RawModule, RawStream};
use cuda_rt_driver::{Kernel, KernelAttributes, LaunchShape, SuggestedBlock};

impl Kernels for CudaDriver {
    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.report(self.modules.function(&self.context, kernel).map(drop))
    }

    fn kernel_attributes(&self, kernel: &'static Kernel) -> DriverResult<KernelAttributes> {
        self.report(occupancy::attributes(&self.context, &self.modules, kernel))
    }

    fn max_active_blocks(
        &self,
        kernel: &'static Kernel,
        threads: u32,
        shared_bytes: u32,
    ) -> DriverResult<u32> {
        let blocks = occupancy::active_blocks(&self.context, &self.modules, kernel, threads, shared_bytes);
        self.report(blocks)
    }

    fn suggest_block(&self, kernel: &'static Kernel, shared_bytes: u32) -> DriverResult<SuggestedBlock> {
        self.report(occupancy::suggestion(
            &self.context,
            &self.modules,
            kernel,
            shared_bytes,
        ))
    }

    cuda_rt_driver::kernel_calls! { |this: &CudaDriver|
        launch(kernel, shape, parameters, stream) => {
            // SAFETY: the same contract.
            let launched =
                unsafe { launch::launch(&this.context, &this.modules, kernel, shape, parameters, stream) };
            this.report(launched)?;
            this.remember(kernel);
            Ok(())
        };

        launch_padded(kernel, shape, parameters, stream) => {
            // SAFETY: the same contract; `launch` reads no byte of the values.
            unsafe { this.launch(kernel, shape, parameters, stream) }
        };

        load_module(image) => {
            // SAFETY: the same contract.
            this.report(unsafe { foreign_module::load(&this.context, image) })
        };

        unload_module(module) => {
            // SAFETY: the same contract.
            this.report(unsafe { foreign_module::unload(&this.context, module) })
        };

        module_function(module, name) => {
            // SAFETY: the same contract.
            this.report(unsafe { foreign_module::function(&this.context, module, name) })
        };

        launch_function(function, launch, stream) => {
            // SAFETY: the same contract.
            let launched = unsafe {
                foreign_module::launch(&this.context, &this.properties, function, launch, stream)
            };
            this.report(launched)?;
            // An error that this kernel leaves must not name another kernel.
            this.last_kernel.store(ptr::null_mut(), Ordering::Release);
            Ok(())
        };
    }
}
