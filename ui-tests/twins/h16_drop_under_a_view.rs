// H16, mended: a block dropped in flight is reused only when its copy is done.
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
    let mut frames = Vec::new();
    for round in 0..8 {
        let host = upload.adopt(gpu.pinned_from(&[round as f32; 1024])?)?;
        let mut frame = upload.alloc_zeroed::<f32>(512)?;
        upload.copy_to_device(&host[..512], &mut frame)?;
        drop(host);
        frames.push(frame);
    }
    for (frame, round) in frames.into_iter().zip(0..) {
        let mut back = upload.adopt(gpu.pinned::<f32>(512)?)?;
        upload.copy_to_host(&frame, &mut back)?;
        assert_eq!(*upload.release(back)?.synchronize()?, [round as f32; 512]);
    }
    Ok(())
}
