// H01, mended: `Upload` hands the matrix over, and `Download` waits for the product.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut};

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

fn program<D: Live>(gpu: &Device<D>) -> Result<(), BlasError> {
    let (compute, upload) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Upload<D>>()?);
    let download = gpu.stream::<Download<D>>()?;
    let a = upload.alloc_from_slice(&[1.0_f32; 16])?;
    let a = compute.acquire(upload.release(a)?)?;
    let blas = match Blas::new(&compute) {
        Err(error @ BlasError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        blas => blas?,
    };
    let mut c = blas.multiply(Matrix::new(&a, 4, 4), Matrix::new(&a, 4, 4))?;
    let (one, two) = (Matrix::new(&a, 4, 4), Matrix::new(&a, 4, 4));
    blas.gemm(1.0, one, two, 1.0, MatrixMut::new(&mut c, 4, 4))?;
    let c = download.acquire(compute.release(c)?)?;
    assert_eq!(download.copy_to_vec(&c)?, [8.0; 16]);
    Ok(())
}
