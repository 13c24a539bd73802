//! Kernels: loaded and launched.

use std::ffi::c_void;

use super::calls::group;
use crate::{DriverResult, Kernel, LaunchShape, RawStream};

group! {
    /// Kernels: loaded and launched.
    pub trait Kernels, forwarded by $kernel_calls {
        /// Makes a kernel ready to launch: loads its module, finds its entry and compares the
        /// layouts of its parameters (`cuModuleLoadDataEx`, `cuModuleGetFunction`). Cheap once
        /// done; [`launch`](Self::launch) does it too.
        fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()>;

        /// Launches a kernel in stream order (`cuLaunchKernel`). Nothing is retained of
        /// `parameters` when it returns.
        ///
        /// # Safety
        /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that
        /// size and layout; the memory that the pointers among them name is live, in bounds and not
        /// in conflict with any unordered access until the kernel is done.
        unsafe fn launch(
            &self,
            kernel: &'static Kernel,
            shape: &LaunchShape,
            parameters: &[*const c_void],
            stream: RawStream,
        ) -> DriverResult<()>;

        /// As [`launch`](Self::launch), where values may have padding, whose bytes hold nothing:
        /// they are copied and never looked at.
        ///
        /// # Safety
        /// As there.
        unsafe fn launch_padded(
            &self,
            kernel: &'static Kernel,
            shape: &LaunchShape,
            parameters: &[*const c_void],
            stream: RawStream,
        ) -> DriverResult<()>;
    }
}
