// H03 (E0277): a stream writes what another owns, by every call.
// Twin: h03_two_streams_write
// Table: what another stream owns, or none, written
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Layout2, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn write(
    compute: &Stream<Compute>,
    mine: &DeviceBuffer<f32, Compute>,
    data: &mut DeviceBuffer<f32, Upload>,
    host: &mut PinnedBuffer<f32, Upload>,
    idle: &mut DeviceBuffer<f32>,
) -> Result<(), Error> {
    compute.fill(data, 1.0)?;
    compute.copy(mine, data)?;
    compute.copy_rows(mine, Layout2::packed(2, 2), data, Layout2::packed(2, 2))?;
    compute.copy_from_slice(&[1.0], data)?;
    compute.copy_to_host(mine, host)?;
    compute.fill(idle, 1.0)?;
    let _ = || compute.fill(&mut data[..4], 1.0);
    Ok(())
}

fn main() {}
