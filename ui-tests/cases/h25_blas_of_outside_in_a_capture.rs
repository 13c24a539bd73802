// H25 (E0277): a capture calls cuBLAS on the stream outside, with memory of the capture.
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
    let memory = compute.alloc_from_slice(&[1.0_f32; 16])?;
    let mut graph = compute.capture(memory, |_stream, mut memory| {
        blas.scal(2.0, &mut memory)?;
        Ok(())
    })?;
    graph.launch(&compute)
}
