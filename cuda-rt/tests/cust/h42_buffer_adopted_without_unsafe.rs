use cuda_rt::interop::cust::cust::memory::DeviceBuffer;
use cuda_rt::{Error, Stream};

cuda_rt::streams! { Compute; }

fn adopt(compute: &Stream<Compute>, buffer: DeviceBuffer<f32>) -> Result<(), Error> {
    // A copy of it without a lifetime.
    let mut alias = *buffer.as_slice();
    let mut ours = compute.adopt_cust_buffer(buffer)?;
    compute.fill(&mut ours, 1.0)?;
    // Written by cust, on the default stream.
    alias.set_zero().map_err(|_| ()).ok();
    Ok(())
}

fn main() {}
