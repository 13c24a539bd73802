// H05, mended: `Option::take` leaves nothing behind to acquire again.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Handoff, Idle, Live, Stream};

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

struct Stage<D: Live> {
    incoming: Option<Handoff<DeviceBuffer<f32, Idle<D>>>>,
}

impl<D: Live> Stage<D> {
    fn run(
        &mut self,
        download: &Stream<Download<D>>,
    ) -> Result<Option<DeviceBuffer<f32, Download<D>>>, Error> {
        self.incoming
            .take()
            .map(|handoff| download.acquire(handoff))
            .transpose()
    }
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, 8.0)?;
    let mut stage = Stage {
        incoming: Some(compute.release(frame)?),
    };
    let frame = stage.run(&download)?.expect("a frame came in");
    assert!(stage.run(&download)?.is_none());
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    download.copy_to_host(&frame, &mut host)?;
    assert_eq!(*download.release(host)?.synchronize()?, [8.0; 64]);
    Ok(())
}
