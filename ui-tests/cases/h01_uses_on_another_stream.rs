// H01 (E0277): a stream uses what another owns, by every call.
// Twin: h01_read_without_handoff
// Table: what another stream owns, or none
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Gpu, Layout2, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn read(
    compute: &Stream<Compute>,
    mine: &mut DeviceBuffer<f32, Compute>,
    data: DeviceBuffer<f32, Upload>,
    host: &PinnedBuffer<f32, Upload>,
    idle: DeviceBuffer<f32>,
) -> Result<(), Error> {
    compute.copy(&data, mine)?;
    compute.copy_rows(&data, Layout2::packed(2, 2), mine, Layout2::packed(2, 2))?;
    compute.copy_to_slice(&data, &mut [0.0])?;
    compute.copy_to_device(host, mine)?;
    compute.copy(&idle, mine)?;
    let _ = || compute.copy(&data[..4], mine);
    compute.adopt(data)?;
    Ok(())
}

fn moved(compute: &Stream<Compute>, data: DeviceBuffer<f32, Upload>, idle: DeviceBuffer<f32>) -> Result<(), Error> {
    compute.share(data)?;
    compute.release(idle)?;
    Ok(())
}

fn acquired(compute: &Stream<Compute>, data: DeviceBuffer<f32, Upload>, idle: DeviceBuffer<f32>) -> Result<(), Error> {
    compute.acquire(data)?;
    compute.acquire(idle)?;
    Ok(())
}

fn other_gpu(
    compute: &Stream<Compute<Gpu<1>>>,
    mine: &mut DeviceBuffer<f32, Compute<Gpu<1>>>,
    data: &mut DeviceBuffer<f32, Compute>,
) -> Result<(), Error> {
    compute.copy(data, mine)?;
    compute.copy(mine, data)?;
    Ok(())
}

fn main() {}
