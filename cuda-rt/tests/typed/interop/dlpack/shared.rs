//! Memory that is lent to several consumers: each waits for those that have ended, and the memory
//! is freed behind all.

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, ErrorCode, RawStream};
use cuda_rt::interop::dlpack::{DL_CUDA_HOST, DLManagedTensorVersioned, DlpackShared};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Idle, Live};

use super::super::{Compute, LEN};
use super::{order, their_stream};
use crate::devices::for_each_device;

type Shared<D> = DlpackShared<DeviceBuffer<u32, Idle<D>>>;

/// Memory that the compute stream has filled with `value`.
fn shared<D: Live>(gpu: &Device<D>, value: u32) -> Shared<D> {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let buffer = compute.alloc_uninit(LEN).unwrap();
    let buffer = compute.init_filled(buffer, value).unwrap();
    DlpackShared::new(gpu, compute.release(buffer).unwrap(), &[4, 25]).unwrap()
}

fn lent<D: Live>(shared: &Shared<D>, consumer: RawStream) -> *mut DLManagedTensorVersioned {
    // SAFETY: each caller's stream lives until the deleter was called, and has all uses, or the
    // checker sees the race.
    unsafe { shared.lend(Some(consumer)) }.unwrap().into_raw()
}

/// Calls the deleter, once, as consumers do.
fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is live until its deleter is called.
    let deleter = unsafe { (*managed).deleter }.unwrap();
    // SAFETY: each test calls this once for a tensor.
    unsafe { deleter(managed) };
}

/// A consumer's work on the memory.
fn fill<D: Live>(gpu: &Device<D>, address: DeviceAddress, value: u8, stream: RawStream) {
    // SAFETY: the memory is live, and has this many bytes.
    unsafe { gpu.driver().fill(address, &[value, 0, 0, 0], LEN, stream) }.unwrap();
}

fn settled<D: Live>(gpu: &Device<D>, streams: &[RawStream]) {
    for stream in streams {
        // SAFETY: the stream is live.
        unsafe { gpu.driver().synchronize_stream(*stream) }.unwrap();
    }
    gpu.synchronize().unwrap();
    gpu.trim(0).unwrap();
    gpu.synchronize().unwrap();
}

fn allocations<D: Live>(gpu: &Device<D>) -> usize {
    gpu.simulator()
        .map_or(0, |simulator| simulator.counters().allocations_live)
}

/// Each order of the ends of two consumers and of the owner.
#[test]
fn shared_memory_is_freed_behind_all_of_its_consumers() {
    for_each_device(|gpu| {
        let (theirs, other) = (their_stream(gpu), their_stream(gpu));
        for ends in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let memory = shared(gpu, 3);
            let address = memory.address();
            let (first, second) = (lent(&memory, theirs), lent(&memory, other));
            // Both use it at a time: a user orders them.
            fill(gpu, address, 7, theirs);
            order(gpu, theirs, other);
            fill(gpu, address, 8, other);
            let mut memory = Some(memory);
            for end in ends {
                assert!(gpu.simulator().is_none() || allocations(gpu) > 0);
                match end {
                    0 => delete(first),
                    1 => delete(second),
                    _ => drop(memory.take()),
                }
            }
            // Other owners of the memory, perhaps.
            let compute = gpu.stream::<Compute<_>>().unwrap();
            for _ in 0..3 {
                let mut next = compute.alloc_zeroed::<u32>(LEN).unwrap();
                compute.fill(&mut next, 9).unwrap();
            }
        }
        settled(gpu, &[theirs, other]);
        assert_eq!(allocations(gpu), 0);
        assert!(gpu.races().is_empty(), "{:?}", gpu.races());
    });
}

/// Each consumer but the first waits for the one before.
#[test]
fn h03_a_consumer_comes_behind_the_consumers_that_have_ended() {
    for (ended, names_its_stream) in [(true, true), (false, true), (true, false)] {
        let config = SimConfig::default().check(Check::Record).order(Order::Lazy);
        let races = Device::simulated(config, |gpu| {
            let streams = [their_stream(&gpu), their_stream(&gpu), their_stream(&gpu)];
            let idle = their_stream(&gpu);
            let memory = shared(&gpu, 1);
            let mut late = Vec::new();
            for (value, stream) in (1..).zip(streams) {
                let named = if names_its_stream { stream } else { idle };
                let managed = lent(&memory, named);
                fill(&gpu, memory.address(), value, stream);
                match ended {
                    true => delete(managed),
                    false => late.push(managed),
                }
            }
            late.into_iter().for_each(delete);
            drop(memory);
            settled(&gpu, &streams);
            gpu.races()
        })
        .unwrap();
        assert_eq!(races.is_empty(), ended && names_its_stream, "{races:?}");
    }
}

/// Without a stream the host waits, so that a consumer on the host sees the last values.
#[test]
fn a_consumer_without_a_stream_gets_memory_that_is_not_in_use() {
    for_each_device(|gpu| {
        let (theirs, other) = (their_stream(gpu), their_stream(gpu));
        let memory = shared(gpu, 3);
        let managed = lent(&memory, theirs);
        fill(gpu, memory.address(), 7, theirs);
        delete(managed);
        // SAFETY: the uses are over when the deleter is called.
        let managed = unsafe { memory.lend(None) }.unwrap().into_raw();
        fill(gpu, memory.address(), 8, other);
        // SAFETY: the stream is live.
        unsafe { gpu.driver().synchronize_stream(other) }.unwrap();
        delete(managed);
        drop(memory);
        settled(gpu, &[theirs, other]);
        assert_eq!(allocations(gpu), 0);
        assert!(gpu.races().is_empty(), "{:?}", gpu.races());

        let mut host = gpu.pinned_from(&[1_u32; LEN]).unwrap();
        host[0] = 2;
        let host = DlpackShared::of_pinned(host, &[LEN]).unwrap();
        assert_eq!(host.device().device_type, DL_CUDA_HOST);
        let address = host.address().0 as usize;
        for stream in [Some(theirs), None] {
            // SAFETY: all uses are in the order of the stream, and then over.
            let managed = unsafe { host.lend(stream) }.unwrap().into_raw();
            match stream {
                Some(stream) => fill(gpu, DeviceAddress(address as u64), 5, stream),
                None => {
                    let first: *const u32 = std::ptr::with_exposed_provenance(address);
                    // SAFETY: the memory is live and nobody else uses it.
                    assert_eq!(unsafe { first.read() }, 5);
                }
            }
            delete(managed);
        }
    });
}

#[test]
fn memory_whose_consumers_end_is_unknown_is_lent_to_nobody_and_leaked() {
    Device::simulated(SimConfig::default(), |gpu| {
        let theirs = their_stream(&gpu);
        let simulator = gpu.simulator().unwrap();
        let memory = shared(&gpu, 3);
        let managed = lent(&memory, theirs);
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        delete(managed);
        for stream in [Some(theirs), None] {
            // SAFETY: it is refused.
            let refused = unsafe { memory.lend(stream) }.unwrap_err();
            assert!(
                refused.to_string().starts_with("DlpackShared::lend: "),
                "{refused}"
            );
        }
        drop(memory);
        settled(&gpu, &[theirs]);
        assert_eq!(allocations(&gpu), 1);
    })
    .unwrap();
}

#[test]
fn memory_of_another_shape_comes_back() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let buffer = compute
            .release(compute.alloc_zeroed::<u32>(LEN).unwrap())
            .unwrap();
        let refused = DlpackShared::new(gpu, buffer, &[7]).unwrap_err();
        let text = refused.error.to_string();
        assert_eq!(
            text,
            "DlpackShared::new: the shape has 7 elements, the buffer 100"
        );
        assert_eq!(refused.value.len(), LEN);
        let refused = DlpackShared::of_pinned(gpu.pinned::<u32>(4).unwrap(), &[5]).unwrap_err();
        let text = refused.error.to_string();
        assert_eq!(
            text,
            "DlpackShared::of_pinned: the shape has 5 elements, the buffer 4"
        );
        assert_eq!(refused.value[..], [0; 4]);
    });
}
