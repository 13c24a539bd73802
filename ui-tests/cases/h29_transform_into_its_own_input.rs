// H29 (E0502): cuFFT writes the signal that it reads, in a transform that is not in place.
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), FftError> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); 16])?;
    let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(16))?;
    plan.forward(&signal, &mut signal)
}
