// H08 (E0277): the host and streams use what is shared, leased or constant, not through `view`.
// Twin: h08_write_through_a_lease
// Table: what is shared, leased or constant
#![forbid(unsafe_code)]
use cuda_rt::{Constant, DeviceBuffer, Error, Lease, PinnedBuffer, Shared, Stream};

cuda_rt::streams! {
    Compute;
}

fn shared(shared: Shared<PinnedBuffer<f32>>, compute: &Stream<Compute>, data: Shared<DeviceBuffer<f32>>) -> Result<(), Error> {
    let _ = shared[0];
    let _ = shared.iter().count();
    let _ = shared == [1.0, 2.0];
    for _ in &shared {}
    compute.copy_to_slice(&data, &mut [0.0])?;
    compute.acquire(data)?;
    Ok(())
}

fn leased(mut lease: Lease<DeviceBuffer<f32>, Compute>, compute: &Stream<Compute>) -> Result<(), Error> {
    let _ = lease[0];
    let _ = lease.iter().count();
    let _ = lease == [1.0, 2.0];
    for _ in &lease {}
    compute.copy_to_slice(&lease, &mut [0.0])?;
    compute.fill(&mut lease, 1.0)?;
    compute.fill(&mut lease.view(), 1.0)?;
    Ok(())
}

fn constant(mut constant: Constant<DeviceBuffer<f32>, Compute>, compute: &Stream<Compute>) -> Result<(), Error> {
    let _ = constant[0];
    let _ = constant.iter().count();
    let _ = constant == [1.0, 2.0];
    for _ in &constant {}
    compute.copy_to_slice(&constant, &mut [0.0])?;
    compute.fill(&mut constant, 1.0)?;
    Ok(())
}

fn main() {}
