// H01 (E0277): a tensor of another library is used on a stream that its producer was not told, and
// that waits for nothing.
// Twin: h01_tensors_of_another_library
#![forbid(unsafe_code)]
use cuda_rt::interop::dlpack::DlpackTensor;
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
    Download;
}

/// `Stream::from_dlpack` of `Compute` returned the tensor.
fn show(
    download: &Stream<Download>,
    tensor: &mut DlpackTensor<f32, Compute>,
    host: &mut PinnedBuffer<f32, Download>,
) -> Result<(), Error> {
    download.copy_to_host(&tensor.elements, host)?;
    download.fill(&mut tensor.elements, 0.0)
}

fn take(download: &Stream<Download>, tensor: DlpackTensor<f32, Compute>) -> Result<(), Error> {
    let handoff = download.release(tensor)?;
    drop(handoff);
    Ok(())
}

fn adopt(download: &Stream<Download>, elements: DeviceBuffer<f32, Compute>) -> Result<(), Error> {
    let elements: DeviceBuffer<f32, Download> = download.adopt(elements)?;
    drop(elements);
    Ok(())
}

fn main() {}
