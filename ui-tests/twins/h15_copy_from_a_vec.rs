// H15, mended: `pinned_from` copies to pinned memory, which the stream then owns.
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
    let source = vec![1.0; 1024];
    let mut frame = upload.alloc_zeroed::<f32>(1024)?;
    let host = upload.adopt(gpu.pinned_from(&source)?)?;
    upload.copy_to_device(&host, &mut frame)?;
    let mut back = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.copy_to_host(&frame, &mut back)?;
    assert_eq!(*upload.release(back)?.synchronize()?, *source);
    Ok(())
}
