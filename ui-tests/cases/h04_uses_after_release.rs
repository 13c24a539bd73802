// H04 (E0382): a buffer is used after its `release`, by the host and by its stream.
// Twin: h04_use_after_release
// Table: a buffer after its release
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
}

fn used(
    compute: &Stream<Compute>,
    mut data: DeviceBuffer<f32, Compute>,
    host: PinnedBuffer<f32, Compute>,
    idle: PinnedBuffer<f32>,
) -> Result<(), Error> {
    let _pending = compute.release(data)?;
    compute.fill(&mut data, 1.0)?; // Why not: the name is gone, and E0382 is rustc's own. It points at `release(data)`.
    let _pending = compute.release(host)?;
    println!("{}", host.len()); // Why not: as above.
    let _owned = compute.adopt(idle)?;
    println!("{}", idle[0]); // Why not: as above. It points at `adopt(idle)`.
    Ok(())
}

fn main() {}
