//! Driver calls, counted beside the calls that the same work takes in CUDA. `docs/costs.md` has the
//! table, and names the counts that other modules make.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Grid1, Layout2, Layout3, Live, Scoped};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 1000;

/// The driver calls that `body` makes.
#[track_caller]
fn assert_calls<D: Live, T>(gpu: &Device<D>, expected: &[(Call, u64)], body: impl FnOnce() -> T) -> T {
    let counters = || gpu.simulator().unwrap().counters();
    let before = counters();
    let value = body();
    let after = counters();
    let made = |call: &Call| (*call, after.calls(*call) - before.calls(*call));
    let made: Vec<_> = Call::ALL
        .iter()
        .map(made)
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(made, expected);
    value
}

fn simulated(body: impl for<'id> FnOnce(Device<Scoped<'id>>)) {
    Device::simulated(SimConfig::new(), body).unwrap();
}

/// A buffer goes to another stream: CUDA records an event, and the other stream waits for it.
#[test]
fn a_handoff_is_a_record_and_a_wait() {
    simulated(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let buffers = (
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
            compute.alloc_zeroed::<u8>(LEN).unwrap(),
            vec![compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap()],
        );
        // Makes the events that are reused below.
        let there = other.acquire(compute.release(buffers).unwrap()).unwrap();
        let mut back = compute.acquire(other.release(there).unwrap()).unwrap();
        for _ in 0..3 {
            back = assert_calls(&gpu, &[(Call::WaitEvent, 2), (Call::RecordEvent, 2)], || {
                let there = other.acquire(compute.release(back).unwrap()).unwrap();
                compute.acquire(other.release(there).unwrap()).unwrap()
            });
        }
    });
}

/// Parts, casts, lengths: CUDA does arithmetic with addresses.
#[test]
fn parts_and_casts_make_no_call() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        assert_calls(&gpu, &[], || {
            let parts = buffer.into_chunks(100);
            assert_eq!(parts.len(), 10);
            let mut whole = cuda_rt::DeviceBuffer::join_all(parts).unwrap();
            let tail = whole.split_off(LEN / 2);
            let whole = whole.join(tail).unwrap();
            let bytes = whole.cast::<u8>().unwrap();
            assert_eq!(bytes.len(), 4 * LEN);
            std::mem::forget(bytes);
        });
    });
}

/// A kernel reaches pinned memory in place: CUDA asks for its address, and launches.
#[test]
fn mapped_memory_is_not_copied() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let source = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        let mut target = compute.alloc_zeroed::<f32>(LEN).unwrap();
        assert_calls(&gpu, &[(Call::MappedAddress, 1), (Call::Launch, 1)], || {
            let mapped = compute.mapped(&source).unwrap();
            scale(&compute, Grid1::covering(LEN), mapped, &mut target, 2.0).unwrap();
        });
    });
}

/// A kernel and the host use managed memory in turns: CUDA launches, and waits.
#[test]
fn managed_memory_is_not_copied() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = gpu.managed::<f32>(LEN).unwrap();
        let mut target = compute.alloc_zeroed::<f32>(LEN).unwrap();
        // Makes the event that is reused below.
        let warm = compute.alloc_zeroed::<u8>(1).unwrap();
        drop(compute.release(warm).unwrap());
        for _ in 0..3 {
            data = assert_calls(
                &gpu,
                &[
                    (Call::RecordEvent, 1),
                    (Call::SynchronizeEvent, 1),
                    (Call::Launch, 1),
                ],
                || {
                    data.host_mut(|data| data[0] += 1.0).unwrap();
                    let on_stream = compute.adopt(data).unwrap();
                    scale(&compute, Grid1::covering(LEN), &on_stream, &mut target, 2.0).unwrap();
                    let data = compute.release(on_stream).unwrap().synchronize().unwrap();
                    data.host(|data| assert!(data[0] > 0.0)).unwrap();
                    data
                },
            );
        }
    });
}

/// Rows of one plane or of several: CUDA copies them by one call.
#[test]
fn a_copy_of_rows_is_one_call() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        let (mut left, mut right) = (
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
        );
        let frame = Layout2::packed(10, 8).with_stride(16);
        let planes = Layout3::packed(10, 8, 3).with_stride(16).with_plane_rows(10);
        let one = &[(Call::CopyRows, 1)];
        assert_calls(&gpu, one, || compute.copy_rows(&left, frame, &mut right, frame)).unwrap();
        assert_calls(&gpu, one, || compute.copy_rows(&left, planes, &mut right, planes)).unwrap();
        assert_calls(&gpu, one, || {
            compute.copy_rows_to_device(&host, planes, &mut left, planes)
        })
        .unwrap();
        assert_calls(&gpu, one, || {
            compute.copy_rows_to_host(&left, planes, &mut host, planes)
        })
        .unwrap();
    });
}

/// Host work in stream order: CUDA enqueues a host function, and no thread waits.
#[test]
fn a_host_function_is_one_call() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        for _ in 0..3 {
            assert_calls(&gpu, &[(Call::LaunchHostFunction, 1)], || {
                compute.host_fn(&mut host, |host| host[0] += 1.0).unwrap();
            });
        }
    });
}

/// The host reads what a graph downloaded and rewrites what it uploads: CUDA launches, records an
/// event, and waits for it.
#[test]
fn the_host_between_two_replays_costs_one_wait() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (
            compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap(),
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
        );
        let mut graph = compute
            .capture(bundle, |stream, (mut host, mut data)| {
                stream.copy_to_device(&host, &mut data)?;
                stream.copy_to_host(&data, &mut host)
            })
            .unwrap();
        graph.host(|_| ()).unwrap();
        for _ in 0..3 {
            let expected = [
                (Call::RecordEvent, 1),
                (Call::SynchronizeEvent, 1),
                (Call::LaunchGraph, 1),
            ];
            assert_calls(&gpu, &expected, || {
                graph.launch(&compute).unwrap();
                graph.host(|(mut host, _)| host.as_mut_slice()[0] += 1.0).unwrap();
            });
        }
    });
}

/// From a slice to the device, and from the device to a `Vec`: CUDA allocates, copies, and waits.
/// Both copies go through pinned memory of the pool: the end of its last use is asked for, and the
/// end of the new use recorded.
#[test]
fn a_copy_of_ordinary_memory_takes_a_record_more() {
    simulated(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let values = vec![1.0_f32; LEN];
        // Two blocks of pinned memory, for the two copies, and one of device memory.
        drop([(); 2].map(|()| gpu.pinned::<f32>(LEN).unwrap()));
        let warm = compute.alloc_from_slice(&values).unwrap();
        assert_eq!(compute.copy_to_vec(&warm).unwrap(), values);
        drop(warm);
        // The host has seen the last use of the pinned block over.
        let there = [(Call::RecordEvent, 1), (Call::CopyToDevice, 1)];
        let buffer = assert_calls(&gpu, &there, || compute.alloc_from_slice(&values).unwrap());
        let back = [
            (Call::RecordEvent, 1),
            (Call::SynchronizeEvent, 1),
            (Call::CopyToHost, 1),
        ];
        assert_calls(&gpu, &back, || compute.copy_to_vec(&buffer).unwrap());
    });
}

/// `Device::synchronize`: a wait for each stream. CUDA's `cuCtxSynchronize` is one call.
#[test]
fn a_wait_for_the_device_is_a_wait_for_each_stream() {
    simulated(|gpu| {
        let streams = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        // And the stream that frees memory.
        assert_calls(&gpu, &[(Call::SynchronizeStream, 3)], || {
            gpu.synchronize().unwrap()
        });
        assert_calls(&gpu, &[(Call::QueryStream, 1)], || streams.0.is_done().unwrap());
    });
}
