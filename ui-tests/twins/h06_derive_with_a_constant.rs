// H06, mended: the constant's device is a parameter of the bundle.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{
    AnyDevice, Bundle, Constant, Device, DeviceBuffer, DeviceSlice, DeviceTag, Error, Idle, Kept, Live, Place,
    Stream, StreamTag,
};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

#[derive(Bundle)]
struct Scaler<D: DeviceTag, P: Place = Idle<D>> {
    weights: Constant<DeviceBuffer<f32, Idle<D>>, P>,
    scratch: DeviceBuffer<f32, P>,
}

/// A function over slices serves buffers and views.
fn load<S: StreamTag>(
    stream: &Stream<S>,
    weights: &DeviceSlice<f32, S>,
    scratch: &mut DeviceSlice<f32, S>,
) -> Result<(), Error> {
    stream.copy(weights, scratch)
}

impl<S: StreamTag> Scaler<S::Device, S> {
    fn load(&mut self, stream: &Stream<S>) -> Result<(), Error> {
        load(stream, &self.weights.view(), &mut self.scratch)
    }
}

impl<C: DeviceTag, D: DeviceTag, S: StreamTag> ScalerView<'_, C, D, S> {
    fn load(&mut self, stream: &Stream<S>) -> Result<(), Error> {
        load(stream, &self.weights, &mut self.scratch)
    }
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let weights = compute.release(compute.alloc_from_slice(&[0.5_f32; 64])?)?.synchronize()?;
    let weights = Constant::new(weights);
    let new = || -> Result<_, Error> {
        Ok(Scaler {
            weights: compute.adopt(weights.clone())?,
            scratch: compute.alloc_zeroed(64)?,
        })
    };

    // On two streams, one after another.
    let mut scaler: Scaler<D, Download<D>> = download.acquire(compute.release(new()?)?)?;
    scaler.load(&download)?;
    assert_eq!(download.copy_to_vec(&scaler.scratch)?, [0.5; 64]);

    // In a graph.
    let mut graph = compute.capture(new()?, |stream, mut scaler| scaler.load(stream))?;
    graph.launch(&compute)?;
    assert_eq!(compute.copy_to_vec(&graph.into_inner().scratch)?, [0.5; 64]);

    // Kept by a stream.
    let mut kept: Kept<Scaler<D, Idle<AnyDevice>>> = compute.keep(new()?);
    compute.view(&mut kept)?.load(&compute)?;
    assert_eq!(compute.copy_to_vec(&compute.by_ref(&kept)?.scratch)?, [0.5; 64]);
    Ok(())
}
