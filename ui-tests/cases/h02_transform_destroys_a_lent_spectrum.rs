// H02 (E0308): a transform to real numbers, which destroys its input, takes a spectrum that is only
// lent to be read.
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), FftError> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let spectrum = compute.alloc_from_slice(&[Complex::from(1.0_f32); 9])?;
    let mut signal = compute.alloc_zeroed::<f32>(16)?;
    let plan = Plan::<Complex<f32>, f32, _>::new(&compute, Shape::line(16))?;
    plan.inverse(&spectrum, &mut signal)
}
