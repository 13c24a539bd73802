//! Tensors taken over: they work as buffers, and end once, after their last use.

use std::sync::mpsc::channel;
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, RawStream};
use cuda_rt::interop::dlpack::DlpackTensor;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Live, Stream};

use super::super::{BYTES, Compute, Download, LEN, read};
use super::{Producer, order, their_stream};
use crate::devices::for_each_device;

/// Memory of a producer, filled with `value` by its stream.
fn produced<D: Live>(gpu: &Device<D>, stream: RawStream, value: u8) -> DeviceAddress {
    // SAFETY: the stream is live.
    let address = unsafe { gpu.driver().alloc(BYTES, stream) }.unwrap();
    // SAFETY: the memory was just allocated on this stream.
    unsafe { gpu.driver().fill(address, &[value, 0, 0, 0], LEN, stream) }.unwrap();
    address
}

/// Frees what `produced` made.
fn end<D: Live>(gpu: &Device<D>, stream: RawStream, address: DeviceAddress) {
    // SAFETY: the memory was allocated there, and no use is left.
    unsafe { gpu.driver().free(address, stream) }.unwrap();
    // SAFETY: the stream is live.
    unsafe { gpu.driver().synchronize_stream(stream) }.unwrap();
    // SAFETY: the stream is not used again.
    unsafe { gpu.driver().destroy_stream(stream) }.unwrap();
}

fn import<D: Live>(
    gpu: &Device<D>,
    compute: &Stream<Compute<D>>,
    producer: &'static mut Producer,
    theirs: RawStream,
) -> DlpackTensor<u32, Compute<D>> {
    let told = RawStream(compute.dlpack_stream() as u64);
    assert_eq!(told, compute.raw());
    order(gpu, theirs, told);
    // SAFETY: the memory is live until its deleter was called, and the producer made the stream
    // wait.
    unsafe { compute.from_dlpack(&raw mut producer.versioned) }.unwrap()
}

#[test]
fn an_imported_tensor_moves_as_a_buffer_and_ends_once() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let theirs = their_stream(gpu);
        let address = produced(gpu, theirs, 5);
        let producer = Producer::new::<u32>(address, &[4, 25], &[25, 1], |_| ());
        let ended = &raw const producer.ended;
        let tensor = import(gpu, &compute, producer, theirs);
        // SAFETY: a producer is never freed.
        let ended = || unsafe { &*ended }.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(*tensor.shape, [4, 25]);
        assert_eq!(tensor.elements.address(), address);
        let pending = compute.release(tensor).unwrap();
        assert_eq!((pending.peek().0.len(), pending.peek().1[1]), (100, 25));
        let mut tensor = download.acquire(pending).unwrap();
        download.fill(&mut tensor.elements[..25], 6).unwrap();
        let tensor = compute.acquire(download.release(tensor).unwrap()).unwrap();
        let mut expected = [5; LEN];
        expected[..25].fill(6);
        let mut copy = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.copy(&tensor.elements, &mut copy).unwrap();
        assert_eq!(read(gpu, copy), expected);
        assert_eq!(ended(), 0, "the tensor is still owned");
        let idle = compute.release(tensor).unwrap().synchronize().unwrap();
        assert_eq!(
            (ended(), format!("{:?}", idle.shape)),
            (0, "Metadata([4, 25])".into())
        );
        drop(idle);
        while ended() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ended(), 1);
        end(gpu, theirs, address);
        if let Some(simulator) = gpu.simulator() {
            gpu.synchronize().unwrap();
            gpu.trim(0).unwrap();
            gpu.synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

/// The deleter is not called while work that uses the memory is pending.
#[test]
fn the_deleter_runs_behind_the_last_use() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for unversioned in [false, true] {
            let theirs = their_stream(gpu);
            let address = produced(gpu, theirs, 1);
            let producer = Producer::new::<u32>(address, &[LEN as i64], &[], |_| ());
            order(gpu, theirs, compute.raw());
            let mut tensor = match unversioned {
                // SAFETY: as in `import`.
                false => unsafe { compute.from_dlpack::<u32>(&raw mut producer.versioned) },
                // SAFETY: as in `import`.
                true => unsafe { compute.from_dlpack_unversioned::<u32>(&raw mut producer.unversioned) },
            }
            .unwrap();
            let (go_on, gate) = channel::<()>();
            let mut gate = Some(gate);
            compute
                .host_fn((), move |()| {
                    if let Some(gate) = gate.take() {
                        gate.recv().unwrap();
                    }
                })
                .unwrap();
            compute.fill(&mut tensor.elements, 2).unwrap();
            drop(tensor);
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(producer.ended(), 0, "the fill is pending");
            go_on.send(()).unwrap();
            producer.ends_once();
            end(gpu, theirs, address);
        }
    });
}

/// The producer's wait is the order: without it the checker reports a race, with it none.
#[test]
fn h01_a_producer_that_is_told_no_stream_races() {
    for waits in [true, false] {
        let config = SimConfig::default().check(Check::Record).order(Order::Lazy);
        let races = Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let theirs = their_stream(&gpu);
            let address = produced(&gpu, theirs, 1);
            let producer = Producer::new::<u32>(address, &[LEN as i64], &[], |_| ());
            if waits {
                order(&gpu, theirs, compute.raw());
            }
            // SAFETY: the memory is live until its deleter was called. Without the wait this breaks
            // the contract: that is the race to be found. The simulated device runs one operation
            // at a time.
            let mut tensor = unsafe { compute.from_dlpack::<u32>(&raw mut producer.versioned) }.unwrap();
            compute.fill(&mut tensor.elements, 3).unwrap();
            drop(tensor);
            producer.ends_once();
            end(&gpu, theirs, address);
            gpu.races()
        })
        .unwrap();
        assert_eq!(races.is_empty(), waits, "{races:?}");
    }
}

/// A single element, no elements, and elements behind an offset. Strides that no element needs are
/// not compared.
#[test]
fn tensors_of_every_shape_are_taken_over() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let cases: [(&[i64], &[i64], u64, usize); 6] = [
            (&[], &[], 0, 1),
            (&[], &[], 12, 1),
            (&[3, 0, 5], &[7, 7, 7], 0, 0),
            (&[0], &[], 1, 0),
            (&[2, 1, 3], &[3, -9, 1], 8, 6),
            (&[1, 1], &[0, 0], 4, 1),
        ];
        for (shape, strides, byte_offset, len) in cases {
            let theirs = their_stream(gpu);
            let address = produced(gpu, theirs, 9);
            let producer = Producer::new::<u32>(address, shape, strides, |tensor| {
                tensor.dl_tensor.byte_offset = byte_offset;
                if len == 0 {
                    tensor.dl_tensor.data = std::ptr::null_mut();
                }
            });
            order(gpu, theirs, compute.raw());
            // SAFETY: as in `import`.
            let tensor = unsafe { compute.from_dlpack::<u32>(&raw mut producer.versioned) }.unwrap();
            assert!(
                tensor
                    .shape
                    .iter()
                    .map(|extent| *extent as i64)
                    .eq(shape.iter().copied())
            );
            assert_eq!(tensor.elements.len(), len);
            if len > 0 {
                assert_eq!(tensor.elements.address().0, address.0 + byte_offset);
            }
            assert_eq!(compute.copy_to_vec(&tensor.elements).unwrap(), vec![9; len]);
            drop(tensor);
            producer.ends_once();
            end(gpu, theirs, address);
        }
    });
}
