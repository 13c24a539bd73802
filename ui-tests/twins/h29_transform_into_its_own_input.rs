// H29, mended: `forward_in_place` takes one piece of memory.
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
    let plan = match Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(16)) {
        Err(error @ FftError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        plan => plan?,
    };
    let mut signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); 16])?;
    plan.forward_in_place(&mut signal)?;
    plan.inverse_in_place(&mut signal)?;
    assert_eq!(compute.copy_to_vec(&signal)?, [Complex::from(16.0); 16]);
    Ok(())
}
