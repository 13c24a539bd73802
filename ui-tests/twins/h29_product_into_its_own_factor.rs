// H29, mended: the product has memory of its own.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use cuda_rt_cublas::{Blas, BlasError, Matrix};

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

fn program<D: Live>(gpu: &Device<D>) -> Result<(), BlasError> {
    let compute = gpu.stream::<Compute<D>>()?;
    let blas = match Blas::new(&compute) {
        Err(error @ BlasError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        blas => blas?,
    };
    let mut a = compute.alloc_from_slice(&[1.0_f32; 16])?;
    for _ in 0..3 {
        a = blas.multiply(Matrix::new(&a, 4, 4), Matrix::new(&a, 4, 4))?;
    }
    assert_eq!(compute.copy_to_vec(&a)?, [16384.0; 16]);
    Ok(())
}
