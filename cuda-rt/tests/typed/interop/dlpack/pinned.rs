//! Page-locked tensors.

use std::ptr;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, HostMemory};
use cuda_rt::interop::dlpack::{
    DL_CPU, DL_CUDA, DL_CUDA_HOST, DL_READ_ONLY, DLDevice, DLManagedTensorVersioned,
};
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

/// Ordinary memory is only read: it may be read-only, and begin between two elements.
#[test]
fn an_ordinary_tensor_is_copied_and_ends_in_the_call() {
    for_each_device(|gpu| {
        let bytes: Vec<u8> = (0..17).collect();
        for byte_offset in [0, 1] {
            let address = DeviceAddress(bytes.as_ptr().expose_provenance() as u64);
            let producer = Producer::new::<u32>(address, &[2, 2], &[2, 1], |tensor| {
                tensor.dl_tensor.device.device_type = DL_CPU;
                tensor.dl_tensor.byte_offset = byte_offset;
                tensor.flags = DL_READ_ONLY;
            });
            // SAFETY: the tensor is live, and nothing writes its memory.
            let copied = unsafe { PinnedBuffer::<u32, _>::copy_of_dlpack(gpu, &raw mut producer.versioned) };
            let (host, shape) = copied.unwrap();
            assert_eq!(producer.ended(), 1);
            let first = byte_offset as usize;
            let expected: Vec<u32> = bytes[first..first + 16]
                .chunks_exact(4)
                .map(|four| u32::from_le_bytes(four.try_into().unwrap()))
                .collect();
            assert_eq!((&host[..], shape), (&expected[..], vec![2, 2]));
        }
        let producer = Producer::new::<u32>(DeviceAddress(0), &[2, 0], &[], |tensor| {
            tensor.dl_tensor.device.device_type = DL_CPU;
        });
        // SAFETY: the tensor has no elements.
        let copied = unsafe { PinnedBuffer::<u32, _>::copy_of_dlpack(gpu, &raw mut producer.versioned) };
        assert_eq!((copied.unwrap().1, producer.ended()), (vec![2, 0], 1));
    });
}

/// The host reads no memory of a GPU, and no elements that are apart or of another type.
#[test]
fn a_tensor_that_cannot_be_copied_is_refused_and_ended_once() {
    let cases: [(fn(&mut DLManagedTensorVersioned), &[i64], &str); 5] = [
        (
            |tensor| tensor.dl_tensor.device.device_type = DL_CUDA,
            &[],
            "memory of GPU 0 (kDLCUDA), and the call takes ordinary memory",
        ),
        (|tensor| tensor.dl_tensor.device = HOST, &[], "(kDLCUDAHost)"),
        (|tensor| tensor.dl_tensor.dtype.bits = 64, &[], "uint64"),
        (|_| (), &[1, 2], "not compact"),
        (|tensor| tensor.version.major = 2, &[], "version 2"),
    ];
    for_each_device(|gpu| {
        for (change, strides, expected) in cases {
            // An address of no memory.
            let producer = Producer::new::<u32>(DeviceAddress(0x1000), &[2, 3], strides, |tensor| {
                tensor.dl_tensor.device.device_type = DL_CPU;
                change(tensor);
            });
            // SAFETY: the tensor is refused before its memory is used.
            let refused = unsafe { PinnedBuffer::<u32, _>::copy_of_dlpack(gpu, &raw mut producer.versioned) };
            let text = refused.unwrap_err().to_string();
            assert!(text.starts_with("PinnedBuffer::copy_of_dlpack: "), "{text}");
            assert!(text.contains(expected), "{text}");
            assert_eq!(producer.ended(), 1, "{text}");
        }
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
