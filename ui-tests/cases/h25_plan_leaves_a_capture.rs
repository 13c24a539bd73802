// H25 (E0521): cuFFT on a stream of a capture, with its work area, leaves the capture.
// Twin: h25_plan_of_outside_in_a_capture
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
    let mut kept = None;
    let signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); 16])?;
    compute.capture(signal, |stream, _signal| {
        kept = Some(plan.captured(stream)?);
        Ok(())
    })?;
    drop(kept);
    Ok(())
}
