// H25, mended: between launches the graph's scalars and its bundle change. The old bundle comes
// back, ordered after its launches.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceSlice, Error, Live, Stream};

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
    let (first, second) = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(first, |stream, mut view| stream.fill(&mut view, 1.0))?;
    graph.launch(&compute)?;
    graph.update(|stream, mut view| stream.fill(&mut view, 2.0))?;
    graph.launch(&compute)?;
    let first = graph.replace(second, |stream, mut view| stream.fill(&mut view, 3.0))?;
    graph.launch(&compute)?;
    // The graph now owns the bundle that was `second`, and gives access to it.
    assert_eq!(read(gpu, &compute, &graph.views())?, [3.0; 64]);
    assert_eq!(read(gpu, &compute, &first)?, [2.0; 64]);
    Ok(())
}

fn read<D: Live>(
    gpu: &Device<D>,
    compute: &Stream<Compute<D>>,
    slice: &DeviceSlice<f32, Compute<D>>,
) -> Result<Vec<f32>, Error> {
    let mut host = compute.adopt(gpu.pinned(slice.len())?)?;
    compute.copy_to_host(slice, &mut host)?;
    Ok(compute.release(host)?.synchronize()?.to_vec())
}
