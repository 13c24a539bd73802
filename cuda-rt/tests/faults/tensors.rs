//! Tensors of DLPack that go around between two streams, and page-locked memory. Each consumer is
//! this crate, by pointers alone.

use cuda_rt::interop::dlpack::DlpackShared;
use cuda_rt::{Device, Live, PinnedBuffer, Result};

use crate::programs::{LEN, Streams};

pub(crate) fn tensors<D: Live>(here: &Device<D>) -> Result<()> {
    let streams = Streams::new(here)?;
    let (compute, download) = (&streams.compute, &streams.download);
    let buffer = streams.uploaded(here, 90)?;
    // SAFETY: the stream lives as long as the device. The importer uses the memory there, and
    // on streams that are ordered before its present end when the deleter is called.
    let export = unsafe { compute.to_dlpack(buffer, &[LEN], download.raw()) }?;
    // SAFETY: the tensor was given away for this stream.
    let mut tensor = unsafe { download.from_dlpack::<u32>(export.into_raw()) }?;
    download.fill(&mut tensor.elements[..LEN / 2], 91)?;
    // SAFETY: as above.
    let export = unsafe { download.to_dlpack(tensor.elements, &[2, LEN / 2], compute.raw()) }?;
    // SAFETY: the tensor was given away for this stream.
    let tensor = unsafe { compute.from_dlpack_unversioned::<u32>(export.into_raw_unversioned()) }?;
    let mut host = compute.adopt(here.pinned(LEN)?)?;
    compute.copy_to_host(&tensor.elements, &mut host)?;
    drop(tensor);
    // If memory was freed early, this buffer gets the same memory.
    let mut next = compute.alloc_zeroed::<u32>(LEN)?;
    compute.fill(&mut next, 92)?;
    let host = compute.release(host)?.synchronize()?;
    assert_eq!(host[..LEN / 2], [91; LEN / 2]);
    assert_eq!(host[LEN / 2..], [90; LEN / 2]);
    // SAFETY: as above.
    let managed = unsafe { host.into_dlpack(&[LEN], Some(compute.raw())) }?.into_raw();
    // SAFETY: the tensor was given away, as page-locked memory of this crate.
    let (host, _) = unsafe { PinnedBuffer::<u32, _>::from_dlpack(here, managed) }?;
    assert_eq!(host[LEN - 1], 90);
    drop(compute.adopt(host)?);
    // Nobody takes this export.
    // SAFETY: the stream lives as long as the device.
    drop(unsafe { compute.to_dlpack(streams.uploaded(here, 93)?, &[LEN], download.raw()) }?);
    // A consumer, and the host.
    let lent = compute.release(streams.uploaded(here, 94)?)?;
    let lent = DlpackShared::new(here, lent, &[LEN])?;
    // SAFETY: as above.
    let managed = unsafe { lent.lend(Some(download.raw())) }?.into_raw();
    // SAFETY: the tensor was given away for this stream.
    let mut tensor = unsafe { download.from_dlpack::<u32>(managed) }?;
    download.fill(&mut tensor.elements, 95)?;
    drop(tensor);
    // SAFETY: it is used by nobody.
    drop(unsafe { lent.lend(None) }?);
    drop(lent);
    streams.check(here, next, 92)
}
