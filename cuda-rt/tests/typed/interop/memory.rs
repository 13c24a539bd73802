//! Memory that leaves and enters the library's types by its address.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

#[cfg(debug_assertions)]
use cuda_rt::Live;
use cuda_rt::driver::HostMemory;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, PinnedSlice};

use super::{BYTES, Compute, Download, LEN, read};
use crate::devices::for_each_device;

#[test]
#[should_panic(expected = "a part of a block cannot be given away")]
fn a_part_is_not_given_away_by_its_address() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut first = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let second = first.split_off(LEN / 2);
        // Whole again, the buffer can be given away.
        let (address, len) = first.join(second).unwrap().into_raw();
        // SAFETY: the memory was just given away, in the order of the same stream.
        let mut first = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, len) };
        let _second = first.split_off(LEN / 2);
        first.into_raw();
    })
    .unwrap();
}

#[test]
fn memory_goes_in_and_out_of_our_types() {
    for_each_device(|gpu| {
        let (compute, driver) = (gpu.stream::<Compute<_>>().unwrap(), gpu.driver());
        // SAFETY: the stream is live.
        let address = unsafe { driver.alloc(BYTES, compute.raw()) }.unwrap();
        // SAFETY: the memory was just allocated in the order of this stream, and nothing else uses
        // it. It has `LEN` elements, uninitialised.
        let buffer = unsafe { DeviceBuffer::<MaybeUninit<u32>, _>::from_raw(&compute, address, LEN) };
        let buffer = compute.init_filled(buffer, 6).unwrap();
        assert_eq!(buffer.address(), address);
        let (address, len) = buffer.into_raw();
        // SAFETY: the memory has the form in which it was given away, and was filled in this
        // stream's order.
        let buffer = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, len) };
        assert_eq!(read(gpu, buffer), [6; LEN]);

        let (address, len) = compute.alloc_zeroed::<u32>(LEN).unwrap().into_raw();
        assert_eq!(len, LEN);
        // SAFETY: the memory was just given away, in this stream's order.
        unsafe { driver.free(address, compute.raw()) }.unwrap();

        // SAFETY: the buffer has no memory.
        let empty =
            unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, cuda_rt::driver::DeviceAddress(0), 0) };
        assert!(empty.is_empty() && empty[..].is_empty());
        drop(empty);
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            gpu.stream::<Download<_>>().unwrap().synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

#[test]
fn memory_that_others_keep_is_lent_to_a_stream() {
    for_each_device(|gpu| {
        let (compute, driver) = (gpu.stream::<Compute<_>>().unwrap(), gpu.driver());
        let memory = HostMemory::map(BYTES).unwrap();
        // SAFETY: the memory was just mapped, and is unmapped last.
        unsafe { driver.register_host(&memory) }.unwrap();
        let start: NonNull<u32> = memory.address().cast();
        // SAFETY: the stream is live.
        let address = unsafe { driver.alloc(BYTES, compute.raw()) }.unwrap();
        {
            // SAFETY: the memory lives until the stream is waited for at the end of this block.
            // Nothing else uses it, and it is written before it is read.
            let device = unsafe { DeviceSlice::<u32, Compute<_>>::from_raw_parts_mut(address, LEN) };
            // SAFETY: the memory was mapped, zeroed and registered above, and nothing else uses it.
            let host = unsafe { PinnedSlice::<u32, Compute<_>>::from_raw_parts_mut(start, LEN) };
            compute.fill(device, 8).unwrap();
            compute.copy_to_host(device, host).unwrap();
            // SAFETY: as above, and nothing writes it.
            let again = unsafe { DeviceSlice::<u32, Compute<_>>::from_raw_parts(address, LEN) };
            let buffer = compute
                .init_from(compute.alloc_uninit::<u32>(LEN).unwrap(), again)
                .unwrap();
            // SAFETY: as above; only this stream writes it, in its order.
            let host = unsafe { PinnedSlice::<u32, Compute<_>>::from_raw_parts(start, LEN) };
            let mut copy = compute.alloc_zeroed::<u32>(LEN).unwrap();
            compute.copy_to_device(host, &mut copy).unwrap();
            assert_eq!(read(gpu, copy), [8; LEN]);
            assert_eq!(read(gpu, buffer), [8; LEN]);
        }
        // SAFETY: later work of this stream does not use the memory.
        unsafe { driver.free(address, compute.raw()) }.unwrap();
        compute.synchronize().unwrap();
        // SAFETY: the copies are done.
        let host = unsafe { std::slice::from_raw_parts(start.as_ptr(), LEN) };
        assert_eq!(host, [8; LEN]);
        // SAFETY: the memory was registered above, and no pending work uses it.
        unsafe { driver.unregister_host(&memory) }.unwrap();
    });
}

/// A host function would get a `&[u64]` at an odd address.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "is not aligned for its elements")]
fn attack_view_misaligned_memory_of_the_host() {
    fn view<D: Live>(_: &Device<D>, start: NonNull<u64>) -> &PinnedSlice<u64, Compute<D>> {
        // SAFETY: the memory is mapped, page-locked and initialised. It is not aligned, which a
        // build for tests refuses.
        unsafe { PinnedSlice::from_raw_parts(start, 4) }
    }
    Device::simulated(SimConfig::default(), |gpu| {
        let bytes = gpu.pinned_from(&[1_u8; 64]).unwrap();
        view(&gpu, NonNull::from(&bytes[1]).cast());
    })
    .unwrap();
}
