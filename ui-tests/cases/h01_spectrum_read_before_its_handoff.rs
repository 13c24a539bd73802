// H01 (E0277): a spectrum is downloaded on a stream that does not wait for cuFFT.
// Twin: h01_transform_of_another_streams_signal
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), FftError> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); 16])?;
    let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(16))?;
    plan.forward_in_place(&mut signal)?;
    println!("{:?}", download.copy_to_vec(&signal)?);
    Ok(())
}
