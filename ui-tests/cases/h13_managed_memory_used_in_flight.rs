// H13 (E0277): the host reads and writes managed memory that a stream owns.
// Twin: h13_managed_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut data = compute.adopt(gpu.managed::<f32>(1024)?)?;
    compute.fill(&mut data, 1.0)?;
    compute.synchronize()?;
    let first = data.host(|data| data[0])?;
    data.host_mut(|data| data[0] = first + 1.0)?;
    println!("{:?}", data.to_vec()?);
    Ok(())
}
