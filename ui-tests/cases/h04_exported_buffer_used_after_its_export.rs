// H04 (E0382): a buffer is filled while another library uses it as a tensor.
// Twin: h01_tensors_of_another_library
use cuda_rt::driver::RawStream;
use cuda_rt::interop::dlpack::DLManagedTensorVersioned;
use cuda_rt::{DeviceBuffer, Error, Stream};

cuda_rt::streams! {
    Compute;
}

fn give(
    compute: &Stream<Compute>,
    mut image: DeviceBuffer<f32, Compute>,
    consumer: RawStream,
) -> Result<*mut DLManagedTensorVersioned, Error> {
    // SAFETY: the stream of the consumer lives until the deleter was called, and has all its uses.
    let export = unsafe { compute.to_dlpack(image, &[32, 32], consumer) }?;
    let managed = export.into_raw();
    compute.fill(&mut image, 0.0)?;
    Ok(managed)
}

fn main() {}
