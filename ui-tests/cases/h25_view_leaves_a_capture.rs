// H25 (E0521): a view of the graph's memory is used outside, racing with its launches.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut kept = None;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |_, view| {
        kept = Some(view);
        Ok(())
    })?;
    drop((graph, kept));
    Ok(())
}
