//! The host and streams read one bundle at once.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Shared};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Left;
    Right;
}

/// Idle memory is shared without a call, and read by the host while two streams upload from it. The
/// host writes it only after both.
#[test]
fn the_host_reads_what_two_streams_upload_and_writes_it_after_both() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let samples = Shared::new(gpu.pinned_from(&[5_u32; LEN]).unwrap());
        assert_eq!(samples.len(), LEN);
        let (one, two) = (left.lease(&samples).unwrap(), right.lease(&samples).unwrap());
        let a = left
            .init_from_host(left.alloc_uninit(LEN).unwrap(), &one.view())
            .unwrap();
        let b = right
            .init_from_host(right.alloc_uninit(LEN).unwrap(), &two.view())
            .unwrap();
        let host = samples.host().unwrap();
        assert_eq!(host.iter().sum::<u32>(), 5 * LEN as u32);
        drop((one, two));
        let samples = samples.reclaim().expect_err("the host still reads");
        drop(host);
        let mut samples = samples.reclaim().unwrap().synchronize().unwrap();
        samples.fill(6);
        assert_eq!(read(gpu, &left, &a), [5; LEN]);
        assert_eq!(read(gpu, &right, &b), [5; LEN]);
    });
}

/// A download is read by the host once it is over, while another stream reads it too. The next
/// download waits for that stream.
#[test]
fn h13_the_host_reads_a_shared_download_after_it_is_over() {
    for lazily in [false, true] {
        for_each_device(|gpu| {
            let (upload, left) = (
                gpu.stream::<Upload<_>>().unwrap(),
                gpu.stream::<Left<_>>().unwrap(),
            );
            let mut source = filled(&upload, 7);
            let mut target = upload.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            upload.copy_to_host(&source, &mut target).unwrap();
            let shared = if lazily {
                upload.share_lazily(target).unwrap()
            } else {
                upload.share(target).unwrap()
            };
            let lease = left.lease(&shared).unwrap();
            let copy = left
                .init_from_host(left.alloc_uninit(LEN).unwrap(), &lease.view())
                .unwrap();
            drop(lease);
            let host = shared.host().unwrap();
            assert_eq!(**host, [7; LEN]);
            drop(host);
            upload.fill(&mut source, 8).unwrap();
            let mut target = upload.acquire(shared.reclaim().unwrap()).unwrap();
            upload.copy_to_host(&source, &mut target).unwrap();
            assert_eq!(read(gpu, &left, &copy), [7; LEN]);
            assert_eq!(*upload.release(target).unwrap().synchronize().unwrap(), [8; LEN]);
        });
    }
}

/// The wait fails: the host gets nothing, and can try again.
#[test]
fn a_wait_for_the_writes_that_fails_gives_the_host_nothing() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let source = filled(&upload, 7);
        let mut target = upload.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        upload.copy_to_host(&source, &mut target).unwrap();
        let shared = upload.share(target).unwrap();
        simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
        let error = shared.host().unwrap_err();
        assert!(error.to_string().contains("Shared::host"), "{error}");
        assert_eq!(**shared.host().unwrap(), [7; LEN]);
    })
    .unwrap();
}

/// A leaked lease of the host keeps the bundle shared, and keeps its memory.
#[test]
fn h22_a_leaked_lease_of_the_host_keeps_the_bundle_shared() {
    Device::simulated(SimConfig::new(), |gpu| {
        let shared = Shared::new(gpu.pinned_from(&[1_u32; LEN]).unwrap());
        std::mem::forget(shared.host().unwrap());
        let shared = shared.reclaim().unwrap_err();
        drop(shared);
        assert_eq!(gpu.pinned_stats().blocks_held, 1);
        let _mine = gpu.pinned::<u32>(LEN).unwrap();
        assert_eq!(gpu.pinned_stats().blocks_held, 2, "the block is in use");
    })
    .unwrap();
}

/// Threads read by leases of the host while a stream uploads.
#[test]
fn threads_read_at_once() {
    for_each_device(|gpu| {
        let left = gpu.stream::<Left<_>>().unwrap();
        let shared = Shared::new(gpu.pinned_from(&[2_u32; LEN]).unwrap());
        let lease = left.lease(&shared).unwrap();
        let copy = left
            .init_from_host(left.alloc_uninit(LEN).unwrap(), &lease.view())
            .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(**shared.host().unwrap(), [2; LEN]));
            }
        });
        assert_eq!(read(gpu, &left, &copy), [2; LEN]);
    });
}
