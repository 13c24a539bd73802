// H25 (E0277): a task waits for work that is only being recorded.
// Twin: h25_pinned_memory_adopted_in_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Captured, DeviceBuffer, Error, InGraph, Idle, Stream};

cuda_rt::streams! {
    Compute;
}

async fn body<'g>(
    stream: &Stream<Captured<'g, Compute>>,
) -> Result<DeviceBuffer<f32, Idle<InGraph<'g, cuda_rt::Gpu<0>>>>, Error> {
    let frame = stream.alloc_zeroed::<f32>(64)?;
    stream.release(frame)?.await
}

fn main() {}
