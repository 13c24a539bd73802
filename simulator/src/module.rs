//! Modules that are loaded from bytes at run time, and launches of their functions. The device runs
//! no code of a module: a launch brings the kernel as plain Rust.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Call;
use super::clock::{SpanKind, Work};
use super::launch::{Trap, run_to_end};
use super::reach::Reach;
use super::state::State;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, FunctionLaunch, RawFunction, RawModule};
use cuda_rt_driver::{LaunchShape, StandIn};

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module {
    /// The text, if the image is PTX.
    ptx: Option<String>,
    /// Whether the module is loaded. Launches ask it when they run.
    is_loaded: Arc<AtomicBool>,
}

/// A function of a loaded module.
#[derive(Debug)]
pub(super) struct Function {
    module: u64,
    is_loaded: Arc<AtomicBool>,
}

/// A pending launch of a function.
#[derive(Clone, Debug)]
pub(super) struct FunctionCall {
    name: &'static str,
    shape: LaunchShape,
    /// Address and length in bytes of each buffer.
    buffers: Vec<(u64, u64)>,
    stand_in: StandIn,
    is_loaded: Arc<AtomicBool>,
}

impl State {
    /// Loads a module. PTX must be text with a version, as CUDA demands; other images are not read.
    pub(super) fn load_module(&mut self, image: &[u8]) -> DriverResult<RawModule> {
        const ELF: &[u8] = b"\x7fELF";
        const FATBIN: &[u8] = &0xba55_ed50_u32.to_le_bytes();
        let ptx = if image.starts_with(ELF) || image.starts_with(FATBIN) {
            None
        } else {
            let text = CStr::from_bytes_until_nul(image)
                .ok()
                .and_then(|text| text.to_str().ok());
            let Some(text) = text.filter(|text| text.contains(".version")) else {
                return Err(self.error(Call::LoadModule, ErrorCode::INVALID_PTX));
            };
            Some(text.to_owned())
        };
        let is_loaded = Arc::new(AtomicBool::new(true));
        Ok(RawModule(self.modules.insert(Module { ptx, is_loaded })))
    }

    /// Unloads a module. A launch of its functions that has not run yet traps when it runs.
    pub(super) fn unload_module(&mut self, module: RawModule) -> DriverResult<()> {
        let Some(unloaded) = self.modules.remove(module.0) else {
            return Err(self.error(Call::UnloadModule, ErrorCode::INVALID_HANDLE));
        };
        unloaded.is_loaded.store(false, Ordering::Relaxed);
        let of_it = self
            .functions
            .iter_mut()
            .filter(|(_, function)| function.module == module.0);
        let handles: Vec<u64> = of_it.map(|(handle, _)| handle).collect();
        for handle in handles {
            self.functions.remove(handle);
        }
        Ok(())
    }

    pub(super) fn module_function(&mut self, module: RawModule, name: &CStr) -> DriverResult<RawFunction> {
        let Some(found) = self.modules.get(module.0) else {
            return Err(self.error(Call::ModuleFunction, ErrorCode::INVALID_HANDLE));
        };
        let name = name.to_str().unwrap_or_default();
        if !found.ptx.as_ref().is_none_or(|ptx| has_entry(ptx, name)) {
            return Err(self.error(Call::ModuleFunction, ErrorCode::NOT_FOUND));
        }
        let (module, is_loaded) = (module.0, Arc::clone(&found.is_loaded));
        Ok(RawFunction(self.functions.insert(Function { module, is_loaded })))
    }

    /// The data of a launch.
    pub(super) fn function_launch(
        &self,
        function: RawFunction,
        launch: &FunctionLaunch<'_>,
    ) -> DriverResult<FunctionCall> {
        let Some(found) = self.functions.get(function.0) else {
            return Err(self.error(Call::Launch, ErrorCode::INVALID_HANDLE));
        };
        let Some(stand_in) = launch.stand_in else {
            let detail = format!(
                "kernel `{}` of a loaded module cannot run on a simulated device: give the module a stand-in for it \
                 (`ForeignModule::stand_in`), before `get`; {}",
                launch.name,
                self.origin()
            );
            return Err(DriverError::with_detail(
                Call::Launch.name(),
                ErrorCode::NOT_SUPPORTED,
                detail,
            ));
        };
        let buffers = launch.uses.iter().map(|used| (used.address.0, used.bytes as u64));
        Ok(FunctionCall {
            name: launch.name,
            shape: launch.shape,
            buffers: buffers.collect(),
            stand_in: stand_in.clone(),
            is_loaded: Arc::clone(&found.is_loaded),
        })
    }
}

/// Whether the text names an entry like this.
fn has_entry(ptx: &str, name: &str) -> bool {
    ptx.split(".entry").skip(1).any(|after| {
        let rest = after.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
        })
    })
}

impl FunctionCall {
    /// The launch's load on the engine: its threads, and the bytes of its buffers.
    pub(super) fn work(&self) -> Work {
        let sides = self.shape.grid.iter().chain(&self.shape.block);
        let bytes = self.buffers.iter();
        Work {
            kind: SpanKind::Kernel,
            label: self.name,
            bytes: bytes.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes)),
            threads: sides.fold(1, |product: u64, side| product.saturating_mul(u64::from(*side))),
        }
    }

    /// Runs the stand-in on the calling thread.
    pub(super) fn run(&self, reach: &Reach<'_>) -> Result<(), Trap> {
        let name = self.name;
        let trap = |detail| Trap {
            code: ErrorCode::ILLEGAL_ADDRESS,
            detail,
        };
        if !self.is_loaded.load(Ordering::Relaxed) {
            return Err(trap(format!("kernel `{name}` ran after its module was unloaded")));
        }
        for (address, bytes) in &self.buffers {
            if *bytes > 0 && !reach.contains(*address, *bytes) {
                return Err(trap(format!(
                    "kernel `{name}` was given {bytes} bytes at {address:#x}, which this device does not reach"
                )));
            }
        }
        let call = AssertUnwindSafe(|| {
            // SAFETY: this is the launch's turn in its stream. The code that launched the kernel
            // answers for the memory, as for `cuLaunchKernel`. No other operation runs now.
            unsafe { self.stand_in.run() }
        });
        run_to_end(name, call, || "an unknown place".to_owned())
    }
}
