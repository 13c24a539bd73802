// H14, mended: the host waits for the upload before it writes again.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let upload = gpu.stream::<Upload<D>>()?;
    let mut host = gpu.pinned_from(&[1.0f32; 1024])?;
    let mut frames = Vec::new();
    for value in [2.0, 3.0] {
        let lent = upload.adopt(host)?;
        let mut frame = upload.alloc_zeroed::<f32>(1024)?;
        upload.copy_to_device(&lent, &mut frame)?;
        frames.push(frame);
        host = upload.release(lent)?.synchronize()?;
        host.fill(value);
    }
    for (frame, value) in frames.into_iter().zip([1.0, 2.0]) {
        let mut back = upload.adopt(gpu.pinned::<f32>(1024)?)?;
        upload.copy_to_host(&frame, &mut back)?;
        assert_eq!(*upload.release(back)?.synchronize()?, [value; 1024]);
    }
    Ok(())
}
