//! Write-combined memory: the host writes it, and streams read it.
#![forbid(unsafe_code)]

mod attacks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{AnyDevice, Constant, Device, Error, Grid1, Layout2, Priority, Shared};
use device_kernels::add;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Other;
}

const LEN: usize = 1000;

fn numbers(round: usize) -> Vec<f32> {
    (0..LEN).map(|at| (at * 3 + round) as f32).collect()
}

#[test]
fn uploads_read_what_the_host_wrote() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let mut source = gpu.write_combined::<f32>(LEN).unwrap();
        for round in 0..5 {
            let numbers = numbers(round);
            source.copy_from_slice(.., &numbers).unwrap();
            let on_stream = upload.adopt(source).unwrap();
            let on_device = upload
                .init_from_host(upload.alloc_uninit(LEN).unwrap(), &on_stream)
                .unwrap();
            source = upload.release(on_stream).unwrap().synchronize().unwrap();
            assert_eq!(upload.copy_to_vec(&on_device).unwrap(), numbers);
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn each_way_of_writing_writes_its_range_and_nothing_else() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        for len in [0, 1, LEN] {
            let mut made = [
                gpu.write_combined::<u32>(len).unwrap(),
                gpu.write_combined_from(&vec![0; len]).unwrap(),
                gpu.write_combined_with(len, |_| 0).unwrap(),
            ];
            let mut expected = vec![0_u32; len];
            let range = len / 4..len / 2;
            let values: Vec<u32> = (5..).take(range.len()).collect();
            expected[range.clone()].copy_from_slice(&values);
            made[0].copy_from_slice(range.clone(), &values).unwrap();
            made[1]
                .write_with(range.clone(), |at| values[at - range.start])
                .unwrap();
            let mut rest = values.iter();
            made[2]
                .write_with(range.clone(), |_| *rest.next().unwrap())
                .unwrap();
            for buffer in &mut made {
                buffer.fill(range.end.., 7).unwrap();
                assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
            }
            expected[range.end..].fill(7);
            for buffer in made {
                let buffer = upload.adopt(buffer).unwrap();
                let on_device = upload
                    .init_from_host(upload.alloc_uninit(len).unwrap(), &buffer)
                    .unwrap();
                assert_eq!(upload.copy_to_vec(&on_device).unwrap(), expected);
            }
        }
    });
}

/// Rows, parts, kernels through mapped memory, host functions, loans, graphs, leases, constants.
#[test]
fn everything_that_reads_pinned_memory_reads_write_combined_memory() {
    for_each_device(|gpu| {
        let (upload, other) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let numbers = numbers(0);
        let source = upload.adopt(gpu.write_combined_from(&numbers).unwrap()).unwrap();
        let mut on_device = upload.alloc_zeroed::<f32>(LEN).unwrap();
        upload
            .copy_to_device(&source[10..20], &mut on_device[..10])
            .unwrap();
        let (from, to) = (Layout2::packed(3, 2).with_stride(5), Layout2::packed(3, 2));
        upload
            .copy_rows_to_device(&source, from, &mut on_device[10..16], to)
            .unwrap();
        let expected = [&numbers[10..20], &numbers[..3], &numbers[5..8]].concat();
        assert_eq!(upload.copy_to_vec(&on_device[..16]).unwrap(), expected);

        let mapped = upload.mapped(&source).unwrap();
        let uninit = upload.alloc_uninit(LEN).unwrap();
        let sum = add(&upload, Grid1::covering(LEN), mapped, mapped, uninit).unwrap();
        let twice: Vec<f32> = numbers.iter().map(|number| number * 2.0).collect();
        assert_eq!(upload.copy_to_vec(&sum).unwrap(), twice);

        let total = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&total);
        upload
            .host_fn(&source[..100], move |source| {
                seen.store(source.iter().sum::<f32>() as u64, Ordering::Relaxed);
            })
            .unwrap();
        upload.synchronize().unwrap();
        assert_eq!(total.load(Ordering::Relaxed), (0..100).sum::<u64>() * 3);

        upload
            .lend_all(&other, (&source, &mut on_device), |(source, mut on_device)| {
                other.copy_to_device(&source, &mut on_device)
            })
            .unwrap()
            .unwrap();
        assert_eq!(upload.copy_to_vec(&on_device).unwrap(), numbers);

        let source = upload.release(source).unwrap();
        assert_eq!(source.peek().len(), LEN);
        let shared = Shared::new(source.synchronize().unwrap());
        let leases = (upload.lease(&shared).unwrap(), other.lease(&shared).unwrap());
        let a = upload
            .init_from_host(upload.alloc_uninit(LEN).unwrap(), &leases.0.view())
            .unwrap();
        let b = other
            .init_from_host(other.alloc_uninit(LEN).unwrap(), &leases.1.view())
            .unwrap();
        assert_eq!(upload.copy_to_vec(&a).unwrap(), numbers);
        assert_eq!(other.copy_to_vec(&b).unwrap(), numbers);
        drop(leases);
        let constant = Constant::new(gpu.write_combined_from(&numbers).unwrap());
        let constant = upload.adopt(constant).unwrap();
        upload.copy_to_device(&constant.view(), &mut on_device).unwrap();
        assert_eq!(upload.copy_to_vec(&on_device).unwrap(), numbers);
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn the_source_of_a_graph_is_rewritten_between_replays() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let source = upload.adopt(gpu.write_combined::<f32>(LEN).unwrap()).unwrap();
        let target = upload.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        let bundle = (source, upload.alloc_zeroed::<f32>(LEN).unwrap(), target);
        let mut graph = upload
            .capture(bundle, |stream, (source, mut data, mut target)| {
                stream.copy_to_device(&source, &mut data)?;
                stream.copy_to_host(&data, &mut target)
            })
            .unwrap();
        for round in 0..6 {
            let numbers = numbers(round);
            graph
                .host(|(mut source, _, _)| match round % 3 {
                    0 => source.copy_from_slice(.., &numbers),
                    1 => source.write_with(.., |at| numbers[at]),
                    _ => source.fill(.., round as f32),
                })
                .unwrap()
                .unwrap();
            graph.launch(&upload).unwrap();
            let expected = match round % 3 {
                2 => vec![round as f32; LEN],
                _ => numbers,
            };
            graph
                .host(|(_, _, target)| assert_eq!(target.as_slice(), expected))
                .unwrap();
        }
        assert!(gpu.races().is_empty());
    });
}

/// A value that names its stream at run time keeps the memory, and lends it to the host.
#[test]
fn a_stream_of_run_time_keeps_it() {
    let gpu = AnyDevice::open_or_simulate(0).unwrap();
    let stream = gpu.create_stream("uploads", Priority::Low).unwrap();
    let mut kept = stream.run(|s| {
        let source = s
            .adopt(s.device().write_combined_from(&[1_u32; LEN]).unwrap())
            .unwrap();
        s.keep(source)
    });
    for round in 2..5 {
        kept.host(|mut source| source.fill(1.., round)).unwrap().unwrap();
        let (back, seen) = stream.run(|s| {
            let source = s.open(kept).unwrap();
            let on_device = s.init_from_host(s.alloc_uninit(LEN).unwrap(), &source).unwrap();
            (s.keep(source), s.copy_to_vec(&on_device[..2]).unwrap())
        });
        kept = back;
        assert_eq!(seen, [1, round]);
    }
}

/// The host writes on one thread, and another thread uploads what it receives.
#[test]
fn what_another_thread_receives_is_written() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let send = send;
                for round in 0..50 {
                    let frame = gpu.write_combined_from(&numbers(round)).unwrap();
                    send.send(frame).unwrap();
                }
            });
            for (round, frame) in receive.iter().enumerate() {
                let frame = upload.adopt(frame).unwrap();
                let on_device = upload
                    .init_from_host(upload.alloc_uninit(LEN).unwrap(), &frame)
                    .unwrap();
                assert_eq!(upload.copy_to_vec(&on_device).unwrap(), numbers(round));
            }
        });
    });
}

/// Blocks of pinned memory and write-combined blocks are never given out for each other.
#[test]
fn the_pool_keeps_its_blocks_apart_from_pinned_ones() {
    Device::simulated(SimConfig::new(), |gpu| {
        let counters = || gpu.simulator().unwrap().counters();
        let calls = || {
            (
                counters().calls(Call::AllocWriteCombined),
                counters().calls(Call::RegisterHost),
            )
        };
        let bytes = 64 << 10;
        drop(gpu.write_combined::<u8>(bytes).unwrap());
        assert_eq!(calls(), (1, 0));
        drop(gpu.pinned::<u8>(bytes).unwrap());
        assert_eq!(calls(), (1, 1), "no write-combined block for pinned memory");
        drop((
            gpu.write_combined::<u8>(bytes).unwrap(),
            gpu.pinned::<u8>(bytes).unwrap(),
        ));
        assert_eq!(calls(), (1, 1), "each kind is reused");
        drop((
            gpu.write_combined::<u8>(bytes).unwrap(),
            gpu.managed::<u8>(bytes).unwrap(),
        ));
        assert_eq!(counters().calls(Call::AllocManaged), 1);
        assert_eq!(calls(), (1, 1), "no block of either for managed memory");

        let kept = gpu.write_combined::<u8>(1).unwrap();
        assert_eq!(counters().registrations_live, 2);
        assert_eq!(gpu.trim_write_combined(), 0, "in use");
        drop(kept);
        assert_eq!(gpu.trim_write_combined(), bytes);
        assert_eq!(counters().registrations_live, 1);
    })
    .unwrap();
}

/// Neither the host's writes nor the making of a buffer from a reused block calls the driver.
#[test]
fn writes_call_nothing_and_an_upload_is_one_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let all = || {
            let counters = gpu.simulator().unwrap().counters();
            Call::ALL.iter().map(|call| counters.calls(*call)).sum::<u64>()
        };
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let mut on_device = upload.alloc_zeroed::<f32>(LEN).unwrap();
        drop(gpu.write_combined::<f32>(LEN).unwrap());
        let before = all();
        let mut source = gpu.write_combined_from(&numbers(0)).unwrap();
        source.fill(..3, 1.0).unwrap();
        source.copy_from_slice(3..5, &[2.0; 2]).unwrap();
        source.write_with(5.., |at| at as f32).unwrap();
        let source = upload.adopt(source).unwrap();
        assert_eq!(all(), before);
        upload.copy_to_device(&source, &mut on_device).unwrap();
        assert_eq!(all(), before + 1);
    })
    .unwrap();
}

#[test]
fn failures_give_errors_that_name_the_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        simulator.fail_next(Call::AllocWriteCombined, ErrorCode::OUT_OF_MEMORY);
        let error = gpu.write_combined::<u32>(8).unwrap_err().to_string();
        assert!(error.contains("Device::write_combined"), "{error}");
        let error = gpu.write_combined::<u64>(usize::MAX / 4).unwrap_err();
        assert!(matches!(error, Error::Pinned(_)), "{error}");
        let mut data = gpu.write_combined::<u32>(8).unwrap();
        let error = data.copy_from_slice(1..3, &[1]).unwrap_err();
        assert!(
            matches!(
                error,
                Error::LengthMismatch {
                    source_len: 1,
                    destination_len: 2,
                    ..
                }
            ),
            "{error}"
        );
        assert!(format!("{data:?}").contains("8 elements"));
    })
    .unwrap();
}
