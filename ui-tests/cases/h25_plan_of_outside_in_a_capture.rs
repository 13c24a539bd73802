// H25 (E0277): a capture calls cuFFT on the stream outside, with memory of the capture.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};
use cuda_rt_cufft::{Complex, Plan, Shape};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(16))?;
    let signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); 16])?;
    let mut graph = compute.capture(signal, |_stream, mut signal| {
        plan.forward_in_place(&mut signal)?;
        Ok(())
    })?;
    graph.launch(&compute)
}
