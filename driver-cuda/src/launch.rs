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
    modules.permit_launch(context, kernel, function, shape)?;
    let stream = stream::handle(stream);
    // CUDA copies the values. It writes neither to them nor to the list, whatever its signature
    // says.
    let parameters = parameters.as_ptr().cast_mut().cast::<*mut c_void>();
    let launched = context.enqueue("cuLaunchKernel", |library| {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
        // SAFETY: the function is of this context. By this function's contract there is one pointer
        // for each of the kernel's parameters. The entry takes these parameters: its name and its
        // layouts were compared with the PTX.
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
    launched.map_err(|error| explain(error, kernel.name, shape))
}

#[cold]
pub(super) fn explain(error: DriverError, name: &str, shape: &LaunchShape) -> DriverError {
    // A sticky error comes from an earlier kernel: this kernel never ran.
    if error.is_sticky() {
        return error;
    }
    let LaunchShape {
        grid,
        block,
        shared_bytes,
        ..
    } = shape;
    let detail =
        format!("kernel `{name}` with grid {grid:?}, block {block:?}, {shared_bytes} bytes of shared memory");
    with_detail(error, detail)
}
