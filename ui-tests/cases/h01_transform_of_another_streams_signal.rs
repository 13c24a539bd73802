// H01 (E0277): cuFFT reads a signal that another stream may still be uploading.
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), FftError> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let signal = upload.alloc_from_slice(&[1.0_f32; 16])?;
    let mut spectrum = compute.alloc_zeroed::<Complex<f32>>(9)?;
    let plan = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(16))?;
    plan.forward(&signal, &mut spectrum)?;
    Ok(())
}
