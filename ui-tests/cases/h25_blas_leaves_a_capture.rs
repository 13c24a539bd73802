// H25 (E0521): cuBLAS on a stream of a capture, with its workspace, leaves the capture.
// Twin: h25_blas_of_outside_in_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};
use cuda_rt_cublas::Blas;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let blas = Blas::new(&compute)?;
    let mut kept = None;
    let memory = compute.alloc_from_slice(&[1.0_f32; 16])?;
    compute.capture(memory, |stream, _memory| {
        kept = Some(blas.captured(stream)?);
        Ok(())
    })?;
    drop(kept);
    Ok(())
}
