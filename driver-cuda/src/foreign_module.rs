//! Modules that a program loads from bytes at run time, and unloads; launches of their functions.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::context::Context;
use super::error::with_detail;
use super::ffi;
use super::module::{load_data, raise_shared};
use super::stream;
use cuda_rt_driver::{DriverResult, FunctionLaunch, Kernel, Properties, RawFunction, RawModule, RawStream};

/// The function of a raw handle.
fn function_of(function: RawFunction) -> ffi::CUfunction {
    ptr::with_exposed_provenance_mut(function.0 as usize)
}

/// The module of a raw handle.
fn module_of(module: RawModule) -> ffi::CUmodule {
    ptr::with_exposed_provenance_mut(module.0 as usize)
}

/// # Safety
/// As [`Kernels::load_module`](cuda_rt_driver::Kernels::load_module).
pub(super) unsafe fn load(context: &Context, image: &[u8]) -> DriverResult<RawModule> {
    // SAFETY: by this function's contract the image is text that ends in a NUL, or states no place
    // outside itself.
    let module = unsafe { load_data(context, image.as_ptr().cast(), "a foreign module") }?;
    Ok(RawModule(module.expose_provenance() as u64))
}

/// # Safety
/// As [`Kernels::unload_module`](cuda_rt_driver::Kernels::unload_module).
pub(super) unsafe fn unload(context: &Context, module: RawModule) -> DriverResult<()> {
    let _entered = context.enter()?;
    // SAFETY: by this function's contract the handle is live, nothing uses it again, and none of
    // its launches is pending.
    unsafe { context.library().cuModuleUnload(module_of(module)) }
}

/// # Safety
/// As [`Kernels::module_function`](cuda_rt_driver::Kernels::module_function).
pub(super) unsafe fn function(
    context: &Context,
    module: RawModule,
    name: &CStr,
) -> DriverResult<RawFunction> {
    let _entered = context.enter()?;
    let mut function = ptr::null_mut();
    // SAFETY: by this function's contract the handle is live, and the name ends in a NUL.
    let found = unsafe {
        context
            .library()
            .cuModuleGetFunction(&mut function, module_of(module), name.as_ptr())
    };
    found.map_err(|error| {
        let detail = format!("the module has no entry `{}`", name.to_string_lossy());
        with_detail(error, detail)
    })?;
    Ok(RawFunction(function.expose_provenance() as u64))
}

/// Lets a launch pass more shared memory than every block may have (`cuFuncSetAttribute`).
fn permit_shared(
    context: &Context,
    properties: &Properties,
    function: RawFunction,
    launch: &FunctionLaunch<'_>,
) -> DriverResult<()> {
    let bytes = launch.shape.shared_bytes;
    if bytes <= Kernel::DEFAULT_SHARED_BYTES {
        return Ok(());
    }
    properties.check_shared_bytes_of(launch.name, bytes, "launch it with less")?;
    // SAFETY: the function is live by the contract of `launch`, which calls this.
    unsafe { raise_shared(context, function_of(function), bytes) }
}

/// # Safety
/// As [`Kernels::launch_function`](cuda_rt_driver::Kernels::launch_function).
pub(super) unsafe fn launch(
    context: &Context,
    properties: &Properties,
    function: RawFunction,
    launch: &FunctionLaunch<'_>,
    stream: RawStream,
) -> DriverResult<()> {
    permit_shared(context, properties, function, launch)?;
    let stream = stream::handle(stream);
    // CUDA copies the values. It writes neither to them nor to the list, whatever its signature
    // says.
    let parameters = launch.parameters.as_ptr().cast_mut().cast::<*mut c_void>();
    let shape = &launch.shape;
    let launched = context.enqueue("cuLaunchKernel", |library| {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
        // SAFETY: by this function's contract the handles are live, and there is one pointer for
        // each parameter of the function, to a live value of its size.
        unsafe {
            library.cuLaunchKernel(
                function_of(function),
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
    launched.map_err(|error| super::launch::explain(error, launch.name, shape))
}
