// H29 (E0502): cuBLAS writes the matrix that it reads.
#![forbid(unsafe_code)]
use cuda_rt::Device;
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), BlasError> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut a = compute.alloc_from_slice(&[1.0_f32; 16])?;
    let factor = Matrix::new(&a, 4, 4);
    Blas::new(&compute)?.gemm(1.0, factor, factor, 0.0, MatrixMut::new(&mut a, 4, 4))
}
