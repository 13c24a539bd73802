//! Buffers filled with one value, and the contents of a buffer.
#![forbid(unsafe_code)]

use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Live, Stream, StreamTag};

pub(crate) const LEN: usize = 64;

pub(crate) fn filled<S: StreamTag>(stream: &Stream<S>, value: u32) -> DeviceBuffer<u32, S> {
    let mut buffer = stream.alloc_zeroed(LEN).unwrap();
    stream.fill(&mut buffer, value).unwrap();
    buffer
}

pub(crate) fn read<D: Live, S: StreamTag<Device = D>>(
    gpu: &Device<D>,
    stream: &Stream<S>,
    buffer: &DeviceSlice<u32, S>,
) -> Vec<u32> {
    let mut host = stream.adopt(gpu.pinned(buffer.len()).unwrap()).unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}
