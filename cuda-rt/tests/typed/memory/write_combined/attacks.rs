//! Attacks on write-combined memory: it is dropped, forgotten, trimmed or reused while work reads
//! it.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Live, Stream};

use super::{Other, Upload};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

const LEN: usize = 256;

/// A frame of `value` on the stream, with its upload pending.
fn uploaded<D: Live>(
    gpu: &Device<D>,
    upload: &Stream<Upload<D>>,
    value: u32,
) -> (
    cuda_rt::WriteCombinedBuffer<u32, Upload<D>>,
    cuda_rt::DeviceBuffer<u32, Upload<D>>,
) {
    let frame = upload
        .adopt(gpu.write_combined_from(&[value; LEN]).unwrap())
        .unwrap();
    let on_device = upload
        .init_from_host(upload.alloc_uninit(LEN).unwrap(), &frame)
        .unwrap();
    (frame, on_device)
}

/// A frame is dropped while its upload is pending, and the same size is asked for at once.
#[test]
fn attack_overwrite_a_frame_whose_upload_is_pending() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        for round in 0..8 {
            let (frame, on_device) = uploaded(gpu, &upload, round);
            match round % 3 {
                0 => drop(frame),
                1 => drop(upload.release(frame).unwrap()),
                _ => std::mem::forget(upload.release(frame).unwrap()),
            }
            let mut mine = gpu.write_combined::<u32>(LEN).unwrap();
            mine.fill(.., 100).unwrap();
            gpu.trim_write_combined();
            assert_eq!(upload.copy_to_vec(&on_device).unwrap(), [round; LEN]);
        }
        assert!(gpu.races().is_empty());
    });
}

/// The device ends while uploads from dropped memory are pending.
#[test]
fn attack_drop_the_device_under_pending_work() {
    nothing_is_left(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let other = gpu.stream::<Other<_>>().unwrap();
        let (frame, on_device) = uploaded(&gpu, &upload, 1);
        drop(
            other
                .acquire(upload.release((frame, on_device)).unwrap())
                .unwrap(),
        );
        drop(uploaded(&gpu, &upload, 2));
        drop(gpu.write_combined::<u8>(1).unwrap());
    });
}

/// The wait for the last work fails as the device ends. The memory is not freed.
#[test]
fn attack_free_behind_a_wait_that_failed() {
    let simulator = Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        drop(uploaded(&gpu, &upload, 1));
        let simulator = gpu.simulator().unwrap().clone();
        simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
        simulator
    })
    .unwrap();
    assert_eq!(simulator.counters().registrations_live, 1);
}

/// The end of the last use cannot be recorded. The block is never given out again.
#[test]
fn attack_reuse_a_block_whose_end_is_unknown() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let (frame, on_device) = uploaded(&gpu, &upload, 1);
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        drop(frame);
        let mut mine = gpu.write_combined::<u32>(LEN).unwrap();
        mine.fill(.., 2).unwrap();
        assert_eq!(simulator.counters().calls(Call::AllocWriteCombined), 2);
        assert_eq!(upload.copy_to_vec(&on_device).unwrap(), [1; LEN]);
        drop(mine);
        let before = simulator.counters().registrations_live;
        assert_eq!(gpu.trim_write_combined(), 64 << 10);
        assert_eq!(simulator.counters().registrations_live, before - 1);
        let (trimmed, freed) = (gpu.trim_write_combined(), Call::FreeWriteCombined);
        assert_eq!(
            (trimmed, simulator.counters().calls(freed)),
            (0, 1),
            "one is leaked"
        );
    })
    .unwrap();
}

/// The function that gives the elements panics: at a buffer's making, and at a later write.
#[test]
fn attack_panic_while_the_host_writes() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let panicking = |at| if at < 9 { 9 } else { panic!("on purpose") };
        let made = catch_unwind(AssertUnwindSafe(|| gpu.write_combined_with(LEN, panicking)));
        assert!(made.is_err());
        let mut data = gpu.write_combined_from(&[3_u32; LEN]).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| data.write_with(.., panicking)));
        assert!(panicked.is_err());
        // A write inside a write.
        let mut other = gpu.write_combined::<u32>(LEN).unwrap();
        data.write_with(250.., |at| {
            other.fill(at.., at as u32).unwrap();
            drop(gpu.write_combined::<u32>(1).unwrap());
            upload.synchronize().unwrap();
            5
        })
        .unwrap();
        let (data, other) = upload.adopt((data, other)).unwrap();
        let on_device = [&data, &other].map(|source| {
            let uninit = upload.alloc_uninit(LEN).unwrap();
            upload.init_from_host(uninit, source).unwrap()
        });
        let seen = upload.copy_to_vec(&on_device[0]).unwrap();
        assert_eq!((seen[8], seen[9], seen[249], seen[250]), (9, 3, 3, 5));
        let seen = upload.copy_to_vec(&on_device[1]).unwrap();
        assert_eq!((seen[249], seen[250], seen[255]), (0, 250, 255));
    });
}

/// Ranges beyond the buffer write nothing of the block.
#[test]
fn attack_write_beyond_the_end() {
    for_each_device(|gpu| {
        let mut data = gpu.write_combined::<u32>(LEN).unwrap();
        let beyond = |body: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(body)).is_err());
        beyond(&mut || data.fill(LEN - 1..LEN + 1, 1).unwrap());
        beyond(&mut || data.copy_from_slice(LEN..LEN + 1, &[1]).unwrap());
        beyond(&mut || data.write_with(LEN + 1.., |_| 1).unwrap());
    });
}
