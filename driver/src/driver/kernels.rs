//! Kernels: loaded and launched.

use std::ffi::{CStr, c_void};

use super::calls::group;
use crate::{
    DriverResult, FunctionLaunch, Kernel, KernelAttributes, LaunchShape, RawFunction, RawModule, RawStream,
    SuggestedBlock,
};

group! {
    /// Kernels: loaded and launched.
    pub trait Kernels, forwarded by $kernel_calls {
        /// Makes a kernel ready to launch: loads its module, finds its entry and compares the
        /// layouts of its parameters (`cuModuleLoadDataEx`, `cuModuleGetFunction`). Later calls are
        /// cheap. [`launch`](Self::launch) does the same where it was not done.
        fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()>;

        /// What the compiled kernel needs (`cuFuncGetAttribute`). Prepares the kernel, like the
        /// next two calls.
        fn kernel_attributes(&self, kernel: &'static Kernel) -> DriverResult<KernelAttributes>;

        /// The number of blocks of `threads` threads that one multiprocessor holds at a time, if a
        /// launch passes `shared_bytes` of shared memory
        /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`). It is 0 if a block does not fit. A
        /// block of no threads is an error.
        fn max_active_blocks(
            &self,
            kernel: &'static Kernel,
            threads: u32,
            shared_bytes: u32,
        ) -> DriverResult<u32>;

        /// The block size with which most threads are active at a time, if a launch passes
        /// `shared_bytes` of shared memory (`cuOccupancyMaxPotentialBlockSize`).
        fn suggest_block(&self, kernel: &'static Kernel, shared_bytes: u32) -> DriverResult<SuggestedBlock>;

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

        /// Loads a module from bytes at run time: PTX, a cubin or a fatbin
        /// (`cuModuleLoadDataEx`). May wait for work of the device. The driver keeps nothing of
        /// `image` after the call. The error holds the log of the compiler of PTX.
        ///
        /// # Safety
        /// `image` is PTX that ends in a NUL, or a cubin or fatbin whose headers state no place
        /// outside `image`. It is aligned to 8 bytes.
        unsafe fn load_module(&self, image: &[u8]) -> DriverResult<RawModule>;

        /// Unloads a module (`cuModuleUnload`). May wait for work of the device.
        ///
        /// # Safety
        /// The handle is live and is not used again, and neither are its functions. No launch of
        /// its functions is pending, and no graph that can still be launched has one.
        unsafe fn unload_module(&self, module: RawModule) -> DriverResult<()>;

        /// Finds a function of a module by the name of its entry (`cuModuleGetFunction`). The
        /// function lives as long as the module.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn module_function(&self, module: RawModule, name: &CStr) -> DriverResult<RawFunction>;

        /// Launches a function of a loaded module in stream order (`cuLaunchKernel`). The driver
        /// keeps nothing of the list of parameters after the call. A simulated device runs the
        /// launch's stand-in, and refuses a launch without one.
        ///
        /// # Safety
        /// The handles are live. The function has as many parameters as `launch`, and each pointer
        /// is to a live value of its parameter's size. The kernel, or its stand-in, uses only the
        /// memory that `uses` states, as stated. This memory is live, and not in conflict with any
        /// unordered access until the kernel is done.
        unsafe fn launch_function(
            &self,
            function: RawFunction,
            launch: &FunctionLaunch<'_>,
            stream: RawStream,
        ) -> DriverResult<()>;
    }
}
