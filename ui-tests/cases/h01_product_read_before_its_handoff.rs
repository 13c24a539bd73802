// H01 (E0277): a product is downloaded on a stream that does not wait for cuBLAS.
// Twin: h01_product_of_another_streams_matrix
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cublas::{Blas, BlasError, Matrix};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), BlasError> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let a = compute.alloc_from_slice(&[1.0_f32; 16])?;
    let c = Blas::new(&compute)?.multiply(Matrix::new(&a, 4, 4), Matrix::new(&a, 4, 4))?;
    println!("{:?}", download.copy_to_vec(&c)?);
    Ok(())
}
