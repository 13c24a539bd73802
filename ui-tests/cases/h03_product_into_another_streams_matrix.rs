// H03 (E0277): cuBLAS writes a matrix that belongs to another stream.
// Twin: h01_product_of_another_streams_matrix
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Stream};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut};

cuda_rt::streams! {
    Compute;
    Other;
}

fn start(
    blas: &Blas<Compute>,
    other: &Stream<Other>,
    a: &DeviceBuffer<f64, Compute>,
) -> Result<(), BlasError> {
    let mut c = other.alloc_zeroed::<f64>(16)?;
    let a = Matrix::new(a, 4, 4);
    blas.gemm(1.0, a, a, 0.0, MatrixMut::new(&mut c, 4, 4))
}

fn main() {}
