// H42, mended: the code that uses a raw handle answers for it in one `unsafe` place. The types hold
// before and after it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Live};

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

#[allow(unsafe_code, reason = "raw handles act")]
fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let source = compute.init_filled(compute.alloc_uninit::<f32>(64)?, 2.0)?;
    let mut copy = compute.alloc_zeroed::<f32>(64)?;

    // A library's call, on stated memory.
    let (from, to, driver) = (source.address(), copy.address(), gpu.driver());
    // SAFETY: both buffers are live, have 256 bytes, and are borrowed below for the stream of the
    // call.
    let library = |stream| unsafe { driver.copy(to, from, 256, stream) };
    let call = compute.foreign("copy").reads(&source).writes(&mut copy);
    // SAFETY: the closure makes one copy from `source` to `copy`, on the stream of the call; any
    // bits are an `f32`.
    unsafe { call.enqueue(library) }?.expect("a valid copy");

    // The memory leaves the library's types, and enters them again.
    let (address, len) = copy.into_raw();
    // SAFETY: the memory was just given away, on this stream.
    let copy = unsafe { DeviceBuffer::<f32, _>::from_raw(&compute, address, len) };

    // On a stream of another owner, in and out by handoffs.
    let copy = compute.release(copy)?;
    let raw = driver.create_stream(0).expect("a stream");
    // SAFETY: the stream is live and of this device. Nothing captures it, and it is destroyed only
    // below.
    let copy = unsafe {
        gpu.adopt_stream(raw, |stream| {
            let mut copy = stream.acquire(copy)?;
            stream.fill(&mut copy[..8], 1.0)?;
            stream.release(copy)
        })
    }?;
    // SAFETY: the stream is not used again.
    unsafe { driver.destroy_stream(raw) }.expect("it was live");

    let copy = download.acquire(copy)?;
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    download.copy_to_host(&copy, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!((host[..8].to_vec(), host[8..].to_vec()), (vec![1.0; 8], vec![2.0; 56]));
    Ok(())
}
