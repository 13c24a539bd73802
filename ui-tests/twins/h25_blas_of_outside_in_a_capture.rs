// H25, mended: `captured` gives cuBLAS on the stream of the capture.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use cuda_rt_cublas::{Blas, BlasError};

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

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let blas = match Blas::new(&compute) {
        Err(error @ BlasError::Library { .. }) => {
            eprintln!("SKIPPED: {error}");
            return Ok(());
        }
        blas => blas?,
    };
    let memory = compute.alloc_from_slice(&[1.0_f32; 16])?;
    let mut graph = compute.capture(memory, |stream, mut memory| {
        blas.captured(stream)?.scal(2.0, &mut memory)?;
        Ok(())
    })?;
    graph.launch(&compute)?;
    graph.launch(&compute)?;
    assert_eq!(compute.copy_to_vec(&graph.into_inner())?, [4.0; 16]);
    Ok(())
}
