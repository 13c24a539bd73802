//! Page-locked tensors.

use std::ptr;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, HostMemory};
use cuda_rt::interop::dlpack::{DL_CUDA_HOST, DLDevice};
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, PinnedBuffer};

use super::super::{BYTES, Compute, LEN};
use super::{Producer, their_stream};
use crate::devices::for_each_device;

const HOST: DLDevice = DLDevice {
    device_type: DL_CUDA_HOST,
    device_id: 0,
};

#[test]
fn a_page_locked_tensor_is_read_by_the_host_and_ends_once() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let memory = HostMemory::map(BYTES).unwrap();
        // SAFETY: the memory was just mapped, and is unregistered below.
        unsafe { gpu.driver().register_host(&memory) }.unwrap();
        let address = DeviceAddress(memory.address().as_ptr().expose_provenance() as u64);
        let producer = Producer::new::<u32>(address, &[10, 10], &[10, 1], |tensor| {
            tensor.dl_tensor.device = HOST;
            // Of the GPU that the producer locked it for: the host has no number.
            tensor.dl_tensor.device.device_id = 3;
        });
        let tensor = &raw mut producer.versioned;
        // SAFETY: the memory is page-locked, zeroed and unused until the deleter was called.
        let (mut host, shape) = unsafe { PinnedBuffer::<u32, _>::from_dlpack(gpu, tensor) }.unwrap();
        assert_eq!((host[..].to_vec(), shape), (vec![0; LEN], vec![10, 10]));
        host[0] = 4;
        let host = compute.adopt(host).unwrap();
        let copy = compute.alloc_uninit(LEN).unwrap();
        let copy = compute.init_from_host(copy, &host).unwrap();
        assert_eq!(compute.copy_to_vec(&copy).unwrap()[..2], [4, 0]);
        assert_eq!(producer.ended(), 0);
        drop(host);
        producer.ends_once();
        // SAFETY: the memory was registered above, and no use is left.
        unsafe { gpu.driver().unregister_host(&memory) }.unwrap();
    });
}

#[test]
fn a_pinned_buffer_goes_out_and_comes_back() {
    for_each_device(|gpu| {
        let held = gpu.pinned_stats().bytes_held;
        let values: Vec<i64> = (0..6).collect();
        let host = gpu.pinned_from(&values).unwrap();
        let address = host.as_ptr();
        // SAFETY: the consumer is this crate, which has no pending work on the memory at the end.
        let export = unsafe { host.into_dlpack(&[3, 2], None) }.unwrap();
        let managed = export.into_raw();
        // SAFETY: the tensor is live until its deleter is called.
        let tensor = unsafe { &(*managed).dl_tensor };
        assert_eq!((tensor.device, tensor.data.cast_const()), (HOST, address.cast()));
        // SAFETY: a tensor of another type is refused, and ended; this one is of the same type.
        let (host, shape) = unsafe { PinnedBuffer::<i64, _>::from_dlpack(gpu, managed) }.unwrap();
        assert_eq!((&host[..], shape), (&values[..], vec![3, 2]));
        drop(host);

        let host = gpu.pinned_from(&values).unwrap();
        // SAFETY: the shape is refused.
        let refused = unsafe { host.into_dlpack(&[7], None) }.unwrap_err();
        assert!(
            refused
                .error
                .to_string()
                .contains("the shape has 7 elements, the buffer 6")
        );
        assert_eq!(refused.value[..], values);
        // SAFETY: nobody takes the export.
        drop(unsafe { refused.value.into_dlpack(&[6], None) }.unwrap());
        assert!(gpu.pinned_stats().bytes_held >= held);
    });
}

/// The pool does not reuse the memory under the copy of a consumer.
#[test]
fn h16_pinned_memory_goes_back_behind_its_consumers_stream() {
    for named in [true, false] {
        let config = SimConfig::default().check(Check::Record).order(Order::Lazy);
        let races = Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let theirs = their_stream(&gpu);
            let mut host = gpu.pinned_from(&[1_u32; LEN]).unwrap();
            let from = ptr::NonNull::from(&mut host[..]).cast();
            let target = compute.alloc_zeroed::<u32>(LEN).unwrap();
            compute.synchronize().unwrap();
            // SAFETY: the stream lives until the end of the device. Without its name the promise is
            // broken below: that is the race to be found. The simulated device runs one operation
            // at a time.
            let export = unsafe { host.into_dlpack(&[LEN], named.then_some(theirs)) }.unwrap();
            let managed = export.into_raw();
            // SAFETY: both are live, of this many bytes.
            unsafe { gpu.driver().copy_to_device(target.address(), from, BYTES, theirs) }.unwrap();
            // SAFETY: the tensor is live until its deleter is called.
            let deleter = unsafe { (*managed).deleter }.unwrap();
            // SAFETY: this is the only call.
            unsafe { deleter(managed) };
            let mut next = gpu.pinned::<u32>(LEN).unwrap();
            next.fill(2);
            drop(next);
            // SAFETY: the stream is live.
            unsafe { gpu.driver().synchronize_stream(theirs) }.unwrap();
            drop(target);
            gpu.races()
        })
        .unwrap();
        assert_eq!(races.is_empty(), named, "{races:?}");
    }
}
