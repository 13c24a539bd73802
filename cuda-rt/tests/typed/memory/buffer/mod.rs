//! Buffers: empty, dropped while work uses them, and leaked.
#![forbid(unsafe_code)]

mod attacks;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Upload;
}

#[test]
fn empty_buffers_need_no_memory() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<f32>(0).unwrap();
        let mut host = stream.adopt(gpu.pinned::<f32>(0).unwrap()).unwrap();
        stream.fill(&mut device, 1.0).unwrap();
        stream.copy_to_host(&device, &mut host).unwrap();
        let (_, host) = stream.release((device, host)).unwrap().synchronize().unwrap();
        assert!(host.is_empty());
        assert_eq!(gpu.pinned_stats().blocks_mapped, 0);
    });
}

#[test]
fn h21_a_buffer_dropped_under_a_copy_is_freed_after_it() {
    for_each_device(|gpu| {
        let (compute, upload) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
        );
        let mut copies = Vec::new();
        for value in 0..16u32 {
            let mut device = compute.alloc_zeroed::<u32>(4096).unwrap();
            compute.fill(&mut device, value).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(4096).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(device);
            // The allocator may reuse the memory at once, in an order after its last use.
            let mut other = upload.alloc_zeroed::<u32>(4096).unwrap();
            upload.fill(&mut other, 99).unwrap();
            copies.push(compute.release(host).unwrap());
        }
        for (handoff, value) in copies.into_iter().zip(0..) {
            assert_eq!(*handoff.synchronize().unwrap(), [value; 4096]);
        }
    });
}

#[test]
fn h22_leaking_tokens_leaks_memory_and_nothing_else() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        std::mem::forget(compute.release(compute.alloc_zeroed::<u8>(8).unwrap()).unwrap());
        std::mem::forget(compute.alloc_zeroed::<u8>(8).unwrap());
        let mut host = compute.adopt(gpu.pinned::<u8>(8).unwrap()).unwrap();
        compute
            .copy_to_host(&compute.alloc_zeroed::<u8>(8).unwrap(), &mut host)
            .unwrap();
        std::mem::forget(host);
        compute.synchronize().unwrap();
    });
}
