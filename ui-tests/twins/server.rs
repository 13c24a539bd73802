// A double-buffered server: three lines a step, on a thread of its own.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Grid1, Idle, Live, PinnedBuffer, Slot, Stream};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Download;
}

struct Server<D: Live> {
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    input: DeviceBuffer<f32, Compute<D>>,
    slots: [Slot<(DeviceBuffer<f32, Idle<D>>, PinnedBuffer<f32, Idle<D>>)>; 2],
    step: usize,
}

impl<D: Live> Server<D> {
    /// Gives the frame of the step before the last to `sink`, and starts this step's frame.
    fn step(&mut self, sink: &mut impl FnMut(&[f32])) -> Result<(), Error> {
        let Self {
            compute,
            download,
            input,
            slots,
            step,
        } = self;
        let slot = &mut slots[*step % 2];
        *step += 1;
        let grid = Grid1::covering(input.len());
        // This waits for the slot's own download, and for nothing else.
        slot.host(|(_, host)| sink(host))?;
        slot.on(compute, |(frame, _)| {
            scale(compute, grid, input, frame, *step as f32)
        })??;
        slot.on(download, |(frame, host)| download.copy_to_host(frame, host))?
    }
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let input = compute.init_filled(compute.alloc_uninit::<f32>(64)?, 1.0)?;
    let slot = || {
        let frame = compute.release(compute.alloc_zeroed::<f32>(64)?)?.synchronize()?;
        Ok::<_, Error>(Slot::new((frame, gpu.pinned::<f32>(64)?)))
    };
    let slots = [slot()?, slot()?];
    let mut server = Server {
        compute,
        download,
        input,
        slots,
        step: 0,
    };
    let frames = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut frames = Vec::new();
            (0..6).try_for_each(|_| server.step(&mut |host| frames.push((host[0], host[63]))))?;
            Ok::<_, Error>(frames)
        });
        thread.join().unwrap()
    })?;
    assert_eq!(frames, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0].map(|value| (value, value)));
    Ok(())
}
