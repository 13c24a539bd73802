// H01, H04 and H13, mended: a tensor belongs to the stream that its producer was told, moves on
// through a handoff, and is read by the host after its download. What was given away comes back
// only by an import.
use cuda_rt::driver::RawStream;
use cuda_rt::interop::dlpack::DlpackTensor;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Live, PinnedBuffer, Stream};

cuda_rt::streams! {
    Theirs;
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

/// The work of another library: it takes an image, and gives it back, doubled in size by a copy.
#[allow(unsafe_code)]
fn library<D: Live>(
    theirs: &Stream<Theirs<D>>,
    compute: &Stream<Compute<D>>,
    image: DeviceBuffer<f32, Compute<D>>,
) -> Result<DlpackTensor<f32, Compute<D>>, Error> {
    let consumer = RawStream(theirs.dlpack_stream() as u64);
    // SAFETY: the stream lives as long as the device, and has all uses of the library.
    let managed = unsafe { compute.to_dlpack(image, &[2, 4], consumer) }?.into_raw();
    // SAFETY: the tensor was given away for this stream.
    let image = unsafe { theirs.from_dlpack::<f32>(managed) }?;
    let twice = theirs.alloc_uninit(2 * image.elements.len())?;
    let mut twice = theirs.init_filled(twice, 0.0)?;
    theirs.copy(&image.elements, &mut twice[..8])?;
    theirs.copy(&image.elements, &mut twice[8..])?;
    drop(image); // its deleter runs after the copies
    // SAFETY: the stream lives as long as the device, and has all uses of the importer until its
    // deleter was called: the tensor is dropped on a stream that was ordered behind it.
    let managed = unsafe { theirs.to_dlpack(twice, &[4, 4], compute.raw()) }?.into_raw();
    // SAFETY: the tensor was given away for this stream.
    unsafe { compute.from_dlpack::<f32>(managed) }
}

#[allow(unsafe_code)]
fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let theirs = gpu.stream::<Theirs<D>>()?;
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let image = compute.init_filled(compute.alloc_uninit::<f32>(8)?, 1.5)?;
    let tensor = library(&theirs, &compute, image)?;
    assert_eq!(*tensor.shape, [4, 4]);

    let tensor = download.acquire(compute.release(tensor)?)?;
    // SAFETY: no GPU work of the consumer, which is this program, uses the memory.
    let managed = unsafe { gpu.pinned::<f32>(16)?.into_dlpack(&[16], None) }?.into_raw();
    // SAFETY: the tensor was given away, as page-locked memory of this crate.
    let (host, _) = unsafe { PinnedBuffer::<f32, _>::from_dlpack(gpu, managed) }?;
    let mut host = download.adopt(host)?;
    download.copy_to_host(&tensor.elements, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!(*host, [1.5; 16]);

    let tensor = compute.acquire(download.release(tensor)?)?;
    drop(tensor);
    Ok(())
}
