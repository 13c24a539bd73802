//! Kernel launches.

use std::ffi::c_void;
use std::ptr;

use super::context::Context;
use super::error::with_detail;
use super::module::Modules;
use super::stream;
use cuda_rt_driver::{DriverError, DriverResult, RawStream};
use cuda_rt_driver::{Kernel, LaunchShape};

/// # Safety
/// As [`Kernels::launch`](cuda_rt_driver::Kernels::launch).
#[inline]
pub(super) unsafe fn launch(
    context: &Context,
    modules: &Modules,
    kernel: &'static Kernel,
    shape: &LaunchShape,
    parameters: &[*const c_void],
    stream: RawStream,
) -> DriverResult<()> {
    debug_assert_eq!(
        parameters.len(),
        kernel.parameters.len(),
        "kernel `{}`",
        kernel.name
    );
    let function = modules.function(context, kernel)?;
    let (library, stream) = (context.library(), stream::handle(stream));
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
    // CUDA copies the values and writes to neither them nor the list, whatever its signature says.
    let parameters = parameters.as_ptr().cast_mut().cast::<*mut c_void>();
    let launched = context.enqueue(|| {
        // SAFETY: the function is of this context, and the parameters are as its entry has them:
        // that is the caller's promise of the kernel, whose entry's name and layouts were compared
        // with the PTX.
        unsafe {
            library.cuLaunchKernel(
                function,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shape.shared_bytes,
                stream,
                parameters,
                ptr::null_mut(),
            )
        }
    });
    launched.map_err(|error| explain(error, kernel, shape))
}

#[cold]
fn explain(error: DriverError, kernel: &Kernel, shape: &LaunchShape) -> DriverError {
    // A sticky error is that of a kernel before: this one never ran.
    if error.is_sticky() {
        return error;
    }
    let LaunchShape {
        grid,
        block,
        shared_bytes,
        ..
    } = shape;
    let detail = format!(
        "kernel `{}` with grid {grid:?}, block {block:?}, {shared_bytes} bytes of shared memory",
        kernel.name
    );
    with_detail(error, detail)
}
