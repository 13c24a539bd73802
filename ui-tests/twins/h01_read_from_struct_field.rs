// H01, mended: the field is a `Slot`, which moves the frame and its copy between the streams.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Idle, Live, PinnedBuffer, Slot, Stream};

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

struct Viewer<D: Live> {
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    slot: Slot<(DeviceBuffer<f32, Idle<D>>, PinnedBuffer<f32, Idle<D>>)>,
}

impl<D: Live> Viewer<D> {
    fn show(&mut self, value: f32) -> Result<Vec<f32>, Error> {
        let Self {
            compute,
            download,
            slot,
        } = self;
        slot.on(compute, |(frame, _)| compute.fill(frame, value))??;
        slot.on(download, |(frame, host)| download.copy_to_host(frame, host))??;
        slot.host(|(_, host)| host.to_vec())
    }
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let frame = compute
        .release(compute.alloc_zeroed::<f32>(256)?)?
        .synchronize()?;
    let mut viewer = Viewer {
        compute,
        download,
        slot: Slot::new((frame, gpu.pinned(256)?)),
    };
    for value in [1.0, 2.0, 3.0] {
        assert_eq!(viewer.show(value)?, [value; 256]);
    }
    Ok(())
}
