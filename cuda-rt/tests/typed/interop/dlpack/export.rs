//! Tensors given away: the consumer's stream waits for our work, and the memory ends behind the
//! consumer's.

use std::ptr;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, ErrorCode, RawStream};
use cuda_rt::interop::dlpack::{DL_CUDA, DLDataType, DLManagedTensorVersioned, DLPackVersion, VERSION};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, Live, Stream};

use super::super::{BYTES, Compute, Download, LEN, read};
use super::{order, their_stream};
use crate::devices::for_each_device;

/// A buffer of the compute stream, filled with `value` and given to `consumer`.
fn exported<D: Live>(
    compute: &Stream<Compute<D>>,
    value: u32,
    consumer: RawStream,
) -> *mut DLManagedTensorVersioned {
    let buffer = compute
        .init_filled(compute.alloc_uninit(LEN).unwrap(), value)
        .unwrap();
    // SAFETY: each caller's stream lives until the deleter was called, and has all uses.
    unsafe { compute.to_dlpack(buffer, &[4, 25], consumer) }
        .unwrap()
        .into_raw()
}

fn address_of(managed: *mut DLManagedTensorVersioned) -> DeviceAddress {
    // SAFETY: the tensor is live until its deleter is called.
    DeviceAddress(unsafe { (*managed).dl_tensor.data }.addr() as u64)
}

/// Calls the deleter, once, as consumers do.
fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is live until its deleter is called.
    let deleter = unsafe { (*managed).deleter }.unwrap();
    // SAFETY: each test calls this once for a tensor.
    unsafe { deleter(managed) };
}

/// A consumer's work on the tensor.
fn consume<D: Live>(gpu: &Device<D>, managed: *mut DLManagedTensorVersioned, stream: RawStream) {
    // SAFETY: the memory is live, and has this many bytes.
    unsafe { gpu.driver().fill(address_of(managed), &[7, 0, 0, 0], LEN, stream) }.unwrap();
}

fn settled<D: Live>(gpu: &Device<D>, stream: RawStream) {
    // SAFETY: the stream is live.
    unsafe { gpu.driver().synchronize_stream(stream) }.unwrap();
    gpu.synchronize().unwrap();
    // What the streams keep for their next buffers goes back, too.
    gpu.trim(0).unwrap();
    gpu.synchronize().unwrap();
    if let Some(simulator) = gpu.simulator() {
        assert_eq!(simulator.counters().allocations_live, 0);
    }
}

#[test]
fn an_exported_tensor_says_what_it_is() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let theirs = their_stream(gpu);
        let managed = exported(&compute, 1, theirs);
        // SAFETY: the tensor is live until its deleter is called.
        let tensor = unsafe { &*managed };
        assert_eq!((tensor.version, tensor.flags), (VERSION, 0));
        assert_eq!(VERSION, DLPackVersion { major: 1, minor: 1 });
        let fields = &tensor.dl_tensor;
        assert_eq!(fields.device.device_type, DL_CUDA);
        assert_eq!(fields.device.device_id as usize, gpu.properties().ordinal);
        assert_eq!(
            fields.dtype,
            DLDataType {
                code: 1,
                bits: 32,
                lanes: 1
            }
        );
        assert_eq!((fields.ndim, fields.byte_offset), (2, 0));
        // SAFETY: a tensor has as many extents as dimensions.
        assert_eq!(unsafe { std::slice::from_raw_parts(fields.shape, 2) }, [4, 25]);
        // SAFETY: as above.
        assert_eq!(unsafe { std::slice::from_raw_parts(fields.strides, 2) }, [25, 1]);
        delete(managed);

        let empty = compute.alloc_zeroed::<u8>(0).unwrap();
        // SAFETY: the stream lives until the end of the test.
        let empty = unsafe { compute.to_dlpack(empty, &[5, 0, usize::MAX >> 1, 3], theirs) }.unwrap();
        assert_eq!(
            format!("{empty:?}"),
            format!("DlpackExport(uint8, [5, 0, {}, 3])", i64::MAX)
        );
        let empty = empty.into_raw();
        assert_eq!(address_of(empty), DeviceAddress(0));
        delete(empty);
        settled(gpu, theirs);
    });
}

/// The consumer reads what this crate wrote, and the next user of the memory comes behind the
/// consumer. Both structs, and a deleter on another thread, without a context.
#[test]
fn a_consumer_is_ordered_behind_us_and_the_next_owner_behind_it() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let theirs = their_stream(gpu);
        for (value, elsewhere) in [(3, false), (4, true)] {
            let managed = exported(&compute, value, theirs);
            let mut copy = compute.alloc_zeroed::<u32>(LEN).unwrap();
            order(gpu, compute.raw(), theirs); // the copy's memory is there
            let (from, to) = (address_of(managed), copy.address());
            // SAFETY: both are live, and have this many bytes.
            unsafe { gpu.driver().copy(to, from, BYTES, theirs) }.unwrap();
            consume(gpu, managed, theirs);
            match elsewhere {
                false => delete(managed),
                true => {
                    let managed = managed.expose_provenance();
                    std::thread::spawn(move || delete(ptr::with_exposed_provenance_mut(managed)))
                        .join()
                        .unwrap();
                }
            }
            // Other owners of the memory, perhaps.
            for _ in 0..3 {
                let mut next = compute.alloc_zeroed::<u32>(LEN).unwrap();
                compute.fill(&mut next, 9).unwrap();
            }
            order(gpu, theirs, compute.raw());
            compute.copy_to_vec(&copy).unwrap();
            compute.fill(&mut copy[..1], value).unwrap();
            assert_eq!(read(gpu, copy), [value; LEN]);
        }
        let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        // SAFETY: the stream lives until the end of the test, and has all uses.
        let export = unsafe { compute.to_dlpack(buffer, &[LEN], theirs) }.unwrap();
        let managed = export.into_raw_unversioned();
        // SAFETY: the tensor is live.
        let deleter = unsafe { (*managed).deleter }.unwrap();
        // SAFETY: this is the only call.
        unsafe { deleter(managed) };
        // SAFETY: null is ignored.
        unsafe { deleter(ptr::null_mut()) };
        settled(gpu, theirs);
    });
}

/// A wait that is left out is a race: a consumer that works on another stream than it named, before
/// and at the end of its uses.
#[test]
fn h01_a_consumer_on_another_stream_than_it_named_races() {
    for (named, ordered_end) in [(true, true), (false, true), (true, false)] {
        let config = SimConfig::default().check(Check::Record).order(Order::Lazy);
        let races = Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let (theirs, other) = (their_stream(&gpu), their_stream(&gpu));
            let managed = exported(&compute, 1, theirs);
            // The simulated device runs racing operations one at a time.
            consume(&gpu, managed, if named { theirs } else { other });
            if !ordered_end {
                order(&gpu, theirs, other);
                consume(&gpu, managed, other);
            } else if !named {
                order(&gpu, other, theirs);
            }
            delete(managed);
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            gpu.synchronize().unwrap();
            for stream in [theirs, other] {
                // SAFETY: the stream is live.
                unsafe { gpu.driver().synchronize_stream(stream) }.unwrap();
            }
            gpu.races()
        })
        .unwrap();
        assert_eq!(races.is_empty(), named && ordered_end, "{races:?}");
    }
}

/// Between two typed streams, by pointers alone.
#[test]
fn a_tensor_goes_around() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let managed = exported(&compute, 6, RawStream(download.dlpack_stream() as u64));
        // SAFETY: the tensor was given away for this stream.
        let mut tensor = unsafe { download.from_dlpack::<u32>(managed) }.unwrap();
        download.fill(&mut tensor.elements[..1], 5).unwrap();
        // Foreign memory is given on, and comes back through both deleters.
        let shape = tensor.shape.to_vec();
        // SAFETY: the stream lives as long as the device, and has all uses.
        let export = unsafe { download.to_dlpack(tensor.elements, &shape, compute.raw()) }.unwrap();
        // SAFETY: the tensor was given away for this stream.
        let tensor = unsafe { compute.from_dlpack::<u32>(export.into_raw()) }.unwrap();
        assert_eq!(*tensor.shape, [4, 25]);
        let mut expected = [6; LEN];
        expected[0] = 5;
        assert_eq!(read(gpu, tensor.elements), expected);
        // A part of a block, too.
        let mut first = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let second = first.split_off(LEN / 2);
        // SAFETY: as above.
        let export = unsafe { compute.to_dlpack(second, &[LEN / 2], download.raw()) }.unwrap();
        // SAFETY: as above.
        let second = unsafe { download.from_dlpack::<u32>(export.into_raw()) }.unwrap();
        compute.fill(&mut first, 1).unwrap();
        drop((first, second));
        if let Some(simulator) = gpu.simulator() {
            let start = std::time::Instant::now();
            while simulator.counters().allocations_live > 0 {
                assert!(start.elapsed() < super::PATIENCE, "the memory is freed");
                std::thread::sleep(std::time::Duration::from_millis(1));
                gpu.trim(0).unwrap();
                gpu.synchronize().unwrap();
            }
        }
    });
}

#[test]
fn an_export_that_nobody_takes_is_freed() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let theirs = their_stream(gpu);
        let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        // SAFETY: the stream is live.
        let export = unsafe { compute.to_dlpack(buffer, &[LEN], theirs) }.unwrap();
        // SAFETY: the stream is live.
        unsafe { gpu.driver().synchronize_stream(theirs) }.unwrap();
        drop(export);
        settled(gpu, theirs);
    });
}

#[test]
fn a_refused_export_gives_the_buffer_back() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let theirs = their_stream(&gpu);
        let simulator = gpu.simulator().unwrap();
        let mut buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        for (call, shape, expected) in [
            (
                None,
                &[3, 4][..],
                "Stream::to_dlpack: the shape has 12 elements, the buffer 100",
            ),
            (
                None,
                &[usize::MAX, 2],
                "the shape has more elements than a number counts",
            ),
            (
                Some(Call::RecordEvent),
                &[LEN],
                "Stream::to_dlpack: cuEventRecord",
            ),
            (
                Some(Call::WaitEvent),
                &[LEN],
                "Stream::to_dlpack: cuStreamWaitEvent",
            ),
        ] {
            if let Some(call) = call {
                simulator.fail_next(call, ErrorCode::OUT_OF_MEMORY);
            }
            // SAFETY: the export is refused.
            let refused = unsafe { compute.to_dlpack(buffer, shape, theirs) }.unwrap_err();
            assert!(refused.error.to_string().contains(expected), "{}", refused.error);
            buffer = refused.value;
            compute.fill(&mut buffer, 8).unwrap();
        }
        assert_eq!(read(&gpu, buffer), [8; LEN]);
        settled(&gpu, theirs);
    })
    .unwrap();
}

/// Where the end of the consumer's work cannot be recorded, the memory is leaked: the consumer may
/// still use it. The deleter returns all the same.
#[test]
fn memory_whose_last_use_is_unknown_is_leaked() {
    for code in [ErrorCode::OUT_OF_MEMORY, ErrorCode::LAUNCH_FAILED] {
        Device::simulated(SimConfig::default(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let theirs = their_stream(&gpu);
            let managed = exported(&compute, 1, theirs);
            consume(&gpu, managed, theirs);
            let simulator = gpu.simulator().unwrap();
            simulator.fail_next(Call::RecordEvent, code);
            delete(managed);
            // What the streams keep for their next buffers is freed.
            let freed = gpu
                .synchronize()
                .and_then(|()| gpu.trim(0))
                .and_then(|()| gpu.synchronize());
            let lost = freed.as_ref().is_err_and(Error::is_sticky);
            assert_eq!(lost, code == ErrorCode::LAUNCH_FAILED, "{freed:?}");
            assert!(lost || freed.is_ok(), "{freed:?}");
            assert_eq!(simulator.counters().allocations_live, 1, "leaked, and not freed");
        })
        .unwrap();
    }
}

/// The tensor keeps the device: its deleter runs after the last handle is gone.
#[test]
fn the_deleter_runs_after_the_device_was_closed() {
    let managed = Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let theirs = their_stream(&gpu);
        exported(&compute, 2, theirs)
    })
    .unwrap();
    // SAFETY: the tensor is live until its deleter is called.
    assert_eq!(unsafe { (*managed).dl_tensor.ndim }, 2);
    delete(managed);
}
