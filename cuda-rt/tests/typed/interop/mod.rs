//! Interoperability with foreign code. Raw driver calls stand for the foreign code.
//!
//! The calls go through the driver interface, so the tests also run on a GPU.

mod call;
mod dlpack;
mod foreign_declarations;
pub(crate) mod foreign_kernels;
mod kernel;
mod memory;
mod stream;

use cuda_rt::{Device, DeviceBuffer, Error, Live, Stream};

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

const LEN: usize = 100;

const BYTES: usize = LEN * 4;

/// The contents of a buffer of the compute stream.
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

/// Runs `body` on a stream of another owner, which is destroyed when this function returns.
fn on_a_foreign_stream<D: Live, O>(
    gpu: &Device<D>,
    body: impl for<'id> FnOnce(&Stream<cuda_rt::interop::Adopted<'id, D>>) -> Result<O, Error>,
) -> O {
    let driver = gpu.driver();
    let raw = driver.create_stream(0).unwrap();
    // SAFETY: the stream is live and of this device. It is not capturing, and is destroyed only
    // below.
    let output = unsafe { gpu.adopt_stream(raw, body) }.unwrap();
    // SAFETY: the stream is not used again, because the adopted stream is out of scope.
    unsafe { driver.destroy_stream(raw) }.unwrap();
    output
}
