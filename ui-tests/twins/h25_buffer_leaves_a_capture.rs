// H25, mended: the graph's result is in the bundle that the graph was made with and owns.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

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
    let bundle = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(bundle, |stream, (input, mut output)| {
        let mut temporary = stream.alloc_zeroed::<f32>(64)?;
        stream.copy(&input, &mut temporary)?;
        stream.copy(&temporary, &mut output)
    })?;
    for value in [1.0, 2.0] {
        compute.fill(&mut graph.views().0, value)?;
        graph.launch(&compute)?;
        let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
        compute.copy_to_host(&graph.views().1, &mut host)?;
        assert_eq!(*compute.release(host)?.synchronize()?, [value; 64]);
    }
    let (input, output) = graph.into_inner();
    drop(compute.release((input, output))?);
    Ok(())
}
