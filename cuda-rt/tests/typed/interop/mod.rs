//! The doors to foreign code, with raw driver calls as the code behind them.
//!
//! The calls go through the seam, so that all of it runs on a GPU as well.

mod call;
mod kernel;
mod memory;
mod stream;

use cuda_rt::{Bundle, Device, DeviceBuffer, Error, Live, Stream};

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

const LEN: usize = 100;

const BYTES: usize = LEN * 4;

/// What is in a buffer of the compute stream.
fn read<D: Live>(gpu: &Device<D>, buffer: DeviceBuffer<u32, Compute<D>>) -> Vec<u32> {
    let (compute, download) = (
        gpu.stream::<Compute<D>>().unwrap(),
        gpu.stream::<Download<D>>().unwrap(),
    );
    let buffer = download.acquire(compute.release(buffer).unwrap()).unwrap();
    let mut host = download.adopt(gpu.pinned(buffer.len()).unwrap()).unwrap();
    download.copy_to_host(&buffer, &mut host).unwrap();
    download.release(host).unwrap().synchronize().unwrap().to_vec()
}

/// Runs `body` on a stream of someone else's, which is gone when this returns.
fn on_a_foreign_stream<D: Live, R: Bundle<Device = D>>(
    gpu: &Device<D>,
    body: impl for<'id> FnOnce(&Stream<cuda_rt::interop::Adopted<'id, D>>) -> Result<cuda_rt::Handoff<R>, Error>,
) -> cuda_rt::Handoff<R> {
    let driver = gpu.driver();
    let raw = driver.create_stream(0).unwrap();
    // SAFETY: a live stream of this device, not capturing, destroyed below.
    let handoff = unsafe { gpu.adopt_stream(raw, body) }.unwrap();
    // SAFETY: not used again: what was adopted is out of scope.
    unsafe { driver.destroy_stream(raw) }.unwrap();
    handoff
}
