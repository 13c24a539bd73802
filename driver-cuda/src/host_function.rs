//! Host functions.

use super::context::Context;
use super::stream;
use cuda_rt_driver::{DriverResult, HostFunction, RawStream};

/// # Safety
/// As [`Streams::launch_host_function`](cuda_rt_driver::Streams::launch_host_function).
pub(super) unsafe fn launch(
    context: &Context,
    stream: RawStream,
    function: HostFunction,
) -> DriverResult<()> {
    let stream = stream::handle(stream);
    // Made once only: the call gives the argument away.
    context.enqueue_here("cuLaunchHostFunc", |library| {
        // SAFETY: by this function's contract the stream is live, and CUDA may call the function
        // with its argument when the stream gets there.
        unsafe { library.cuLaunchHostFunc(stream, Some(function.run), function.argument()) }
    })
}
