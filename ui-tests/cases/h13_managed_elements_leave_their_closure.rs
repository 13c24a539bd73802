// H13 (lifetime): the host keeps the elements of managed memory, to read them while a stream owns
// it. The closure that they are lent to cannot return them.
// Twin: h13_managed_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let data = gpu.managed::<f32>(1024)?;
    let elements = data.host(|data| data)?;
    let data = compute.adopt(data)?;
    println!("{}", elements[0]);
    drop(data);
    Ok(())
}
