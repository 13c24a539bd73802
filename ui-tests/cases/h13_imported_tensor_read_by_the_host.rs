// H13 (E0277): the host reads a page-locked tensor of another library while a stream owns it, or
// while it is in flight, and the elements of a tensor on the device.
// Twin: h01_tensors_of_another_library
#![forbid(unsafe_code)]
use cuda_rt::interop::dlpack::DlpackTensor;
use cuda_rt::{Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

/// `PinnedBuffer::from_dlpack` returned `host`, and `Stream::from_dlpack` the tensor.
fn read(
    download: &Stream<Download>,
    host: PinnedBuffer<f32>,
    tensor: &DlpackTensor<f32, Download>,
) -> Result<f32, Error> {
    let mut host = download.adopt(host)?;
    download.copy_to_host(&tensor.elements, &mut host)?;
    let first = host[0] + tensor.elements[0];
    let pending = download.release(host)?;
    Ok(first + pending[1])
}

fn main() {}
