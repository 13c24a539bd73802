// H01, mended: `Upload` hands the signal over, and `Download` waits for the spectrum.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
    Download;
    Upload;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), FftError> {
    let (compute, upload) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Upload<D>>()?);
    let download = gpu.stream::<Download<D>>()?;
    let signal = upload.alloc_from_slice(&[1.0_f32; 16])?;
    let signal = compute.acquire(upload.release(signal)?)?;
    let mut spectrum = compute.alloc_zeroed::<Complex<f32>>(9)?;
    let plan = match Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(16)) {
        Err(error @ FftError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        plan => plan?,
    };
    plan.forward(&signal, &mut spectrum)?;
    let spectrum = download.acquire(compute.release(spectrum)?)?;
    assert_eq!(download.copy_to_vec(&spectrum)?[0], Complex::from(16.0));
    Ok(())
}
