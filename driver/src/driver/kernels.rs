//! Kernels: loaded and launched.

use std::ffi::c_void;

use super::calls::group;
use crate::{DriverResult, Kernel, LaunchShape, RawStream};

group! {
    /// Kernels: loaded and launched.
    pub trait Kernels, forwarded by $kernel_calls {
        /// Makes a kernel ready to launch: loads its module, finds its entry and compares the
        /// layouts of its parameters (`cuModuleLoadDataEx`, `cuModuleGetFunction`). Later calls are
        /// cheap. [`launch`](Self::launch) does the same where it was not done.
        fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()>;

        /// Launches a kernel in stream order (`cuLaunchKernel`). The driver keeps nothing of
        /// `parameters` after the call.
        ///
        /// # Safety
        /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that
        /// size and layout. The memory that pointers among the values name is live, in bounds, and
        /// not in conflict with any unordered access until the kernel is done.
        unsafe fn launch(
            &self,
            kernel: &'static Kernel,
            shape: &LaunchShape,
            parameters: &[*const c_void],
            stream: RawStream,
        ) -> DriverResult<()>;

        /// As [`launch`](Self::launch), for values that may have padding. Padding bytes are
        /// uninitialised: the driver copies them and never reads them.
        ///
        /// # Safety
        /// As [`launch`](Self::launch).
        unsafe fn launch_padded(
            &self,
            kernel: &'static Kernel,
            shape: &LaunchShape,
            parameters: &[*const c_void],
            stream: RawStream,
        ) -> DriverResult<()>;
    }
}
