//! Modules and functions as cust's objects, loaded once and never unloaded.

use std::collections::HashMap;
use std::ptr;
use std::sync::{PoisonError, RwLock};

use cust::function::Function;
use cust::module::Module;

use super::error::{check, error};
use crate::cust::handles;
use crate::{CudaDriver, compare_layouts, compare_parameters, ptx_for};
use cuda_rt_driver::{Driver, DriverResult, Kernels};
use cuda_rt_driver::{Kernel, ModuleImage};

/// Modules and functions, by the addresses of their images and kernels, which are statics.
#[derive(Debug)]
pub(super) struct Modules(RwLock<Loaded>);

#[derive(Debug, Default)]
struct Loaded {
    modules: HashMap<usize, &'static Module>,
    functions: HashMap<usize, Function<'static>>,
}

impl Modules {
    pub(super) fn new() -> Self {
        Self(RwLock::default())
    }

    /// Runs `body` with a kernel's function. The first call for a kernel looks the function up.
    pub(super) fn with_function<T>(
        &self,
        cuda: &CudaDriver,
        kernel: &'static Kernel,
        body: impl FnOnce(&Function<'static>) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let key = ptr::from_ref(kernel).addr();
        {
            // Each entry is inserted as a whole, so the maps stay usable after a panic elsewhere.
            let loaded = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(function) = loaded.functions.get(&key) {
                return body(function);
            }
        }
        let mut loaded = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !loaded.functions.contains_key(&key) {
            let function = cuda.report(loaded.find(cuda, kernel))?;
            loaded.functions.insert(key, function);
        }
        body(&loaded.functions[&key])
    }
}

impl Loaded {
    fn find(&mut self, cuda: &CudaDriver, kernel: &'static Kernel) -> DriverResult<Function<'static>> {
        let ptx = ptx_for(cuda.properties().compute_capability, kernel.module)?;
        let _entered = cuda.context().enter()?;
        let found = self.module(cuda, kernel.module, ptx).and_then(|module| {
            let name = kernel.symbol.to_string_lossy();
            check("cuModuleGetFunction", module.get_function(name))
        });
        // The `cuda` driver's error for the same kernel contains the compiler's log.
        let function = found.map_err(|ours| cuda.prepare(kernel).err().unwrap_or(ours))?;
        compare_layouts(kernel, ptx)?;
        compare_parameters(kernel, ptx)?;
        cuda.permit_shared(kernel, function.to_raw().cast(), kernel.shared_bytes())?;
        Ok(function)
    }

    fn module(
        &mut self,
        cuda: &CudaDriver,
        image: &'static ModuleImage,
        ptx: &str,
    ) -> DriverResult<&'static Module> {
        let key = ptr::from_ref(image).addr();
        if let Some(module) = self.modules.get(&key) {
            return Ok(module);
        }
        let module = match cuda.adopted_module(image) {
            // SAFETY: the caller that adopted the module promised that it is never unloaded.
            Some(raw) => unsafe { handles::module(raw) },
            None if ptx.contains('\0') => {
                let code = cust::error::CudaError::InvalidPtx;
                return Err(error("cuModuleLoadDataEx", code));
            }
            None => std::mem::ManuallyDrop::new(check("cuModuleLoadDataEx", Module::from_ptx(ptx, &[]))?),
        };
        // Leaked, because launches may be pending at any time.
        let module: &'static Module = Box::leak(Box::new(module));
        self.modules.insert(key, module);
        Ok(module)
    }
}
