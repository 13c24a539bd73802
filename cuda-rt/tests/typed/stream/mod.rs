//! Copies, fills and allocations in the order of one stream.
#![forbid(unsafe_code)]

mod any;
mod host_copy;
mod host_fn;
mod lend;
mod mapped;
mod peer_copy;
mod peer_loan;
mod pool;
mod rows;

use cuda_rt::Error;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Upload;
    Download;
}

#[test]
fn uploaded_elements_come_back() {
    for_each_device(|gpu| {
        let (upload, download) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let source: Vec<u32> = (0..1000).collect();
        let host = upload.adopt(gpu.pinned_from(&source).unwrap()).unwrap();
        let mut device = upload.alloc_zeroed::<u32>(1000).unwrap();
        upload.copy_to_device(&host, &mut device).unwrap();
        let device = download.acquire(upload.release(device).unwrap()).unwrap();
        let mut back = download.adopt(gpu.pinned::<u32>(1000).unwrap()).unwrap();
        download.copy_to_host(&device, &mut back).unwrap();
        let back = download.release(back).unwrap().synchronize().unwrap();
        assert_eq!(*back, *source);
    });
}

#[test]
fn fills_copies_and_ranges_meet_where_they_should() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut a = stream.alloc_zeroed::<[u8; 3]>(10).unwrap();
        stream.fill(&mut a, [1, 2, 3]).unwrap();
        let (left, right) = a.split_at_mut(4);
        stream.fill(&mut right[2..], [9, 9, 9]).unwrap();
        stream.copy(&right[5..], &mut left[1..2]).unwrap();
        let mut host = stream.adopt(gpu.pinned::<[u8; 3]>(10).unwrap()).unwrap();
        for (chunk, index) in a.chunks_exact(3).zip(0..) {
            stream
                .copy_to_host(chunk, &mut host[index * 3..index * 3 + 3])
                .unwrap();
        }
        let host = stream.release(host).unwrap().synchronize().unwrap();
        let (one, nine, none) = ([1, 2, 3], [9, 9, 9], [0; 3]);
        assert_eq!(*host, [one, nine, one, one, one, one, nine, nine, nine, none]);
    });
}

#[test]
fn memory_is_initialised_through_its_type() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let uninit = stream.alloc_uninit::<u64>(5).unwrap();
        let a = stream.init_filled(uninit, 0x0102_0304_0506_0708).unwrap();
        let b = stream.init_from(stream.alloc_uninit(5).unwrap(), &a).unwrap();
        let mut host = stream.adopt(gpu.pinned::<u64>(5).unwrap()).unwrap();
        stream.copy_to_host(&b, &mut host).unwrap();
        let c = stream
            .init_from_host(stream.alloc_uninit(5).unwrap(), &host)
            .unwrap();
        let mut second = stream.adopt(gpu.pinned::<u64>(5).unwrap()).unwrap();
        stream.copy_to_host(&c, &mut second).unwrap();
        let second = stream.release(second).unwrap().synchronize().unwrap();
        assert_eq!(*second, [0x0102_0304_0506_0708; 5]);
    });
}

#[test]
fn lengths_are_checked_before_anything_is_enqueued() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<u32>(4).unwrap();
        let host = stream.adopt(gpu.pinned::<u32>(5).unwrap()).unwrap();
        let error = stream.copy_to_device(&host, &mut device).unwrap_err();
        assert!(
            matches!(
                error,
                Error::LengthMismatch {
                    source_len: 5,
                    destination_len: 4,
                    ..
                }
            ),
            "{error}"
        );
        let error = stream.alloc_zeroed::<u64>(usize::MAX / 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    });
}
