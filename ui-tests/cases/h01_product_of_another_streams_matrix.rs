// H01 (E0277): cuBLAS reads a matrix that another stream may still be uploading.
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cublas::{Blas, BlasError, Matrix};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), BlasError> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let a = upload.alloc_from_slice(&[1.0_f32; 16])?;
    let b = compute.alloc_from_slice(&[1.0_f32; 16])?;
    let blas = Blas::new(&compute)?;
    let c = blas.multiply(Matrix::new(&a, 4, 4), Matrix::new(&b, 4, 4))?;
    println!("{}", c.len());
    Ok(())
}
