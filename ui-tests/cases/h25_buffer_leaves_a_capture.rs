// H25 (E0521): memory that exists only while a graph runs is used outside it.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut kept = None;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, _| {
        kept = Some(stream.alloc_zeroed::<f32>(1024)?);
        Ok(())
    })?;
    drop((graph, kept));
    Ok(())
}
