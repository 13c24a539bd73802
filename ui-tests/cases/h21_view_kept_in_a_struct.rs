// H21 (E0505): a struct keeps a view of a buffer that is freed before it is read.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceSlice, Error};

cuda_rt::streams! {
    Compute;
}

struct Reader<'a> {
    half: &'a DeviceSlice<f32, Compute>,
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    let reader = Reader { half: &frame[..512] };
    drop(frame);
    compute.copy(reader.half, &mut copy)?;
    Ok(())
}
