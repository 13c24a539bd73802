use cuda_rt::interop::cust::cust::memory::DeviceBuffer;
use cuda_rt::{Error, Stream};

cuda_rt::streams! { Compute; }

fn adopt(compute: &Stream<Compute>, buffer: DeviceBuffer<f32>) -> Result<(), Error> {
    let mut ours = unsafe { compute.adopt_cust_buffer(buffer) }?;
    compute.fill(&mut ours, 1.0)?;
    // It is ours, and the fill is pending.
    drop(buffer);
    Ok(())
}

fn main() {}
