// H02, mended: the transform gets a copy of the spectrum, which it may destroy.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use cuda_rt_cufft::{Complex, FftError, Plan, Shape};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), FftError> {
    let compute = gpu.stream::<Compute<D>>()?;
    let plan = match Plan::<Complex<f32>, f32, _>::new(&compute, Shape::line(16)) {
        Err(error @ FftError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        plan => plan?,
    };
    let spectrum = compute.alloc_from_slice(&[Complex::from(1.0_f32); 9])?;
    let mut copy = compute.alloc_zeroed::<Complex<f32>>(9)?;
    compute.copy(&spectrum, &mut copy)?;
    let mut signal = compute.alloc_zeroed::<f32>(16)?;
    plan.inverse(&mut copy, &mut signal)?;
    assert_eq!(compute.copy_to_vec(&signal)?[0], 16.0);
    assert_eq!(compute.copy_to_vec(&spectrum)?, [Complex::from(1.0); 9]);
    Ok(())
}
