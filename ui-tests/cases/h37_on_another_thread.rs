// H37 (E0382): a thread copies a buffer to GPU 0 while this one goes on with it.
// Twin: h37_source_written_under_the_copy
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_gpu::<1>()?;
    let (compute, copies) = (other.stream::<Compute<Gpu<1>>>()?, gpu.stream::<Copies>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let released = compute.release(frame)?;
    std::thread::scope(|scope| {
        let copied = scope.spawn(|| copies.copy_from_peer(released, .., &mut here));
        compute.fill(&mut frame, 1.0)?;
        copied.join().expect("it does not panic").map(drop)
    })?;
    Ok(())
}
