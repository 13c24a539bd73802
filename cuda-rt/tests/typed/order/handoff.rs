//! Handoffs: queried, split, dropped, and sent to another thread.
#![forbid(unsafe_code)]

use cuda_rt::Query;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Upload;
    Download;
}

#[test]
fn a_handoff_settles_when_polled() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut handoff = stream.release(stream.alloc_zeroed::<u8>(64).unwrap()).unwrap();
        let buffer = loop {
            match handoff.query().unwrap() {
                Query::Done(buffer) => break buffer,
                Query::Pending(again) => handoff = again,
            }
        };
        assert_eq!(buffer.len(), 64);
    });
}

#[test]
fn parts_of_a_split_handoff_go_their_own_ways() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut a = compute.alloc_zeroed::<u32>(8).unwrap();
        compute.fill(&mut a, 5).unwrap();
        let b = compute.alloc_zeroed::<u8>(8).unwrap();
        let (a, b) = compute.release((a, b)).unwrap().split();
        let (a, _b) = (download.acquire(a).unwrap(), compute.acquire(b).unwrap());
        let mut host = download.adopt(gpu.pinned::<u32>(8).unwrap()).unwrap();
        download.copy_to_host(&a, &mut host).unwrap();
        assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [5; 8]);
    });
}

#[test]
fn dropped_handoffs_and_buffers_are_freed_behind_their_work() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for _ in 0..20 {
            let mut device = compute.alloc_zeroed::<u32>(256).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(256).unwrap()).unwrap();
            compute.fill(&mut device, 1).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(compute.release((device, host)).unwrap());
        }
        compute.synchronize().unwrap();
        assert!(gpu.pinned_stats().blocks_mapped <= 20);
    });
}

#[test]
fn streams_and_handoffs_cross_threads() {
    for_each_device(|gpu| {
        let (upload, compute) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
        );
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..20u32 {
                    let mut buffer = upload.alloc_zeroed::<u32>(16).unwrap();
                    upload.fill(&mut buffer, value).unwrap();
                    send.send(upload.release(buffer).unwrap()).unwrap();
                }
            });
            for (handoff, value) in receive.iter().zip(0..) {
                let buffer = compute.acquire(handoff).unwrap();
                let mut host = compute.adopt(gpu.pinned::<u32>(16).unwrap()).unwrap();
                compute.copy_to_host(&buffer, &mut host).unwrap();
                assert_eq!(
                    *compute.release(host).unwrap().synchronize().unwrap(),
                    [value; 16]
                );
            }
        });
    });
}
