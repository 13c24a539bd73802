// H14 (E0505): a stream keeps a view of mapped memory, and fills it while the host writes it.
// Twin: h13_mapped_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    let view = compute.mapped_mut(&mut host)?;
    let mut host = compute.release(host)?.synchronize()?;
    compute.fill(view, 1.0)?;
    host[0] = 2.0;
    Ok(())
}
