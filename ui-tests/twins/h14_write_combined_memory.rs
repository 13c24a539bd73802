// H14, mended: the host writes write-combined memory when no stream owns it, or between replays.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Upload;
    Other;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (upload, other) = (gpu.stream::<Upload<D>>()?, gpu.stream::<Other<D>>()?);
    let mut on_device = upload.alloc_zeroed::<f32>(1024)?;
    let frame = upload.adopt(gpu.write_combined_from(&[1.0_f32; 1024])?)?;
    upload.copy_to_device(&frame, &mut on_device)?;
    let mut frame = upload.release(frame)?.synchronize()?;
    frame.fill(.., 2.0)?;
    frame.copy_from_slice(..1, &[3.0])?;
    frame.write_with(2..3, |at| at as f32 + 2.0)?;
    let frame = other.adopt(frame)?;
    let frame = upload.acquire(other.release(frame)?)?;
    let mut download = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.copy_to_host(&on_device, &mut download)?;
    let download = upload.release(download)?.synchronize()?;
    assert_eq!(download[..4], [1.0; 4]);

    let bundle = (frame, on_device);
    let mut graph = upload.capture(bundle, |stream, (frame, mut data)| {
        stream.copy_to_device(&frame, &mut data)
    })?;
    graph.launch(&upload)?;
    graph.host(|(mut frame, _)| frame.fill(3.., 9.0))??;
    graph.launch(&upload)?;
    let (_, on_device) = graph.into_inner();
    assert_eq!(upload.copy_to_vec(&on_device[..4])?, [3.0, 2.0, 4.0, 9.0]);
    Ok(())
}
