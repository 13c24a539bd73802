//! Functions of modules that are loaded from bytes at run time, and their launches.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::{ForeignUse, LaunchShape};

/// A launch of a function of a loaded module, as
/// [`Kernels::launch_function`](crate::Kernels::launch_function) takes it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionLaunch<'a> {
    /// Name of the kernel, for messages, recordings and checkers.
    pub name: &'static str,
    /// Grid and block. Every thread of every block enters the kernel.
    pub shape: LaunchShape,
    /// One pointer for each parameter of the function.
    pub parameters: &'a [*const c_void],
    /// The memory that the kernel uses, for simulated devices and checkers.
    pub uses: &'a [ForeignUse],
    /// The kernel on the CPU, for simulated devices.
    pub stand_in: Option<&'a StandIn>,
}

/// One launch of a foreign kernel as plain Rust. A simulated device runs it in the kernel's place.
/// In a graph it runs at each launch.
///
/// ```
/// use cuda_rt_driver::StandIn;
///
/// let stand_in = StandIn::new(|| println!("in place of the kernel"));
/// // SAFETY: the closure uses no memory of a device.
/// unsafe { stand_in.clone().run() };
/// ```
#[derive(Clone)]
pub struct StandIn(Arc<dyn Fn() + Send + Sync>);

impl StandIn {
    /// A stand-in that does `run`.
    pub fn new(run: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(run))
    }

    /// Runs the stand-in.
    ///
    /// # Safety
    /// A driver calls this in place of the launched kernel: after the earlier work of its stream
    /// and before the later work, where the contract of
    /// [`Kernels::launch_function`](crate::Kernels::launch_function) holds for the kernel.
    pub unsafe fn run(&self) {
        (self.0)();
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn").finish_non_exhaustive()
    }
}
