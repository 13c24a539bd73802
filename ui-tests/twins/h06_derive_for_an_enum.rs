// H06, mended: each variant's buffers have the bundle's place; the variant is known at any time.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Bundle, Device, DeviceBuffer, Error, Idle, Live, Metadata, PinnedBuffer, Place};

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
enum Frame<P: Place = Idle> {
    Device {
        pixels: DeviceBuffer<u8, P>,
        mask: DeviceBuffer<u8, P>,
        name: Metadata<String, P>,
    },
    Host(PinnedBuffer<u8, P>),
    Empty,
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let frame = Frame::Device {
        pixels: compute.alloc_zeroed(64)?,
        mask: compute.alloc_zeroed(64)?,
        name: Metadata::new(String::from("first")),
    };
    let frames = compute.release(vec![frame, Frame::Empty])?;
    // What is known is known on every thread.
    let frames = std::thread::scope(|scope| {
        let known = scope.spawn(move || {
            assert!(matches!(&frames.peek()[..], [FrameRef::Device { name, .. }, FrameRef::Empty] if **name == "first"));
            frames
        });
        known.join().unwrap()
    });
    for frame in download.acquire(frames)? {
        let Frame::Device { mut pixels, .. } = frame else { continue };
        download.fill(&mut pixels, 9)?;
        let mut host = download.adopt(gpu.pinned(64)?)?;
        download.copy_to_host(&pixels, &mut host)?;
        let host: Frame<Idle<D>> = download.release(Frame::Host(host))?.synchronize()?;
        assert!(matches!(host, Frame::Host(host) if host[..] == [9; 64]));
    }
    Ok(())
}
