//! Pinned memory that kernels, copies and fills reach in place.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, DeviceSlice, Element, Grid1, Live, PinnedBuffer, Stream};
use device_kernels::{add, saxpy, scale};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 1000;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

fn numbers(factor: f32) -> Vec<f32> {
    (0..LEN).map(|at| at as f32 * factor).collect()
}

fn adopted<T: Element, D: Live>(
    gpu: &Device<D>,
    stream: &Stream<Compute<D>>,
    values: &[T],
) -> PinnedBuffer<T, Compute<D>> {
    stream.adopt(gpu.pinned_from(values).unwrap()).unwrap()
}

/// NVIDIA's sample `simpleZeroCopy`: a vector addition whose inputs and output are host memory.
#[test]
fn simple_zero_copy() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let a = adopted(gpu, &compute, &numbers(1.0));
        let b = adopted(gpu, &compute, &numbers(0.5));
        let expected = numbers(1.5);

        let sum = compute.adopt(gpu.pinned_uninit::<f32>(LEN).unwrap()).unwrap();
        let sum = compute.mapped_output(sum).unwrap();
        let (mapped_a, mapped_b) = (compute.mapped(&a).unwrap(), compute.mapped(&b).unwrap());
        let sum = add(&compute, GRID(LEN), mapped_a, mapped_b, sum).unwrap();
        let sum = compute.release(sum).unwrap().synchronize().unwrap();
        assert_eq!(*sum, *expected);

        // Into memory that was written before, and from host memory and device memory together.
        let mut again = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
        let on_device = compute.alloc_from_slice(&numbers(0.5)).unwrap();
        let output = compute.mapped_mut(&mut again).unwrap();
        add(
            &compute,
            GRID(LEN),
            compute.mapped(&a).unwrap(),
            &on_device,
            output,
        )
        .unwrap();
        let again = compute.release(again).unwrap().synchronize().unwrap();
        assert_eq!(*again, *expected);
    });
}

/// The host writes, a kernel reads and writes, the host reads: many times, in one block.
#[test]
fn the_host_and_a_kernel_take_turns() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let x = adopted(gpu, &compute, &numbers(2.0));
        let mut y = gpu.pinned::<f32>(LEN).unwrap();
        for round in 0..5 {
            y.fill(round as f32);
            let mut taken = compute.adopt(y).unwrap();
            let mapped = compute.mapped_mut(&mut taken).unwrap();
            saxpy(&compute, GRID(LEN), 3.0, compute.mapped(&x).unwrap(), mapped).unwrap();
            y = compute.release(taken).unwrap().synchronize().unwrap();
            assert!(
                y.iter()
                    .enumerate()
                    .all(|(at, y)| *y == at as f32 * 6.0 + round as f32)
            );
        }
    });
}

#[test]
fn the_gpu_fills_pinned_memory() {
    fn filled<T: Element + PartialEq + std::fmt::Debug, D: Live>(gpu: &Device<D>, guard: T, value: T) {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = adopted(gpu, &compute, &[guard; LEN]);
        let part = compute.mapped_mut(&mut host[3..LEN - 5]).unwrap();
        compute.fill(part, value).unwrap();
        let uninit = compute.adopt(gpu.pinned_uninit(LEN).unwrap()).unwrap();
        let all = compute.init_host_filled(uninit, value).unwrap();
        let (host, all) = compute.release((host, all)).unwrap().synchronize().unwrap();
        assert_eq!(host[..3], [guard; 3]);
        assert_eq!(host[3..LEN - 5], [value; LEN - 8]);
        assert_eq!(host[LEN - 5..], [guard; 5]);
        assert_eq!(*all, [value; LEN]);
    }
    for_each_device(|gpu| {
        filled(gpu, 1_u8, 9);
        filled(gpu, 1_u16, 0x0102);
        filled(gpu, 1.0_f32, 2.5);
        filled(gpu, [1_u8; 3], [1, 2, 3]);
        filled(gpu, 1_u64, 0x0102_0304_0506_0708);
        filled(gpu, [0_u32; 3], [1, 2, 3]);
    });
}

/// All that takes a slice of device memory takes mapped memory.
#[test]
fn copies_loans_and_graphs_take_mapped_memory() {
    for_each_device(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let source = adopted(gpu, &compute, &numbers(1.0));
        let mut target = adopted(gpu, &compute, &[0.0; LEN]);
        let mut device = compute.alloc_zeroed::<f32>(LEN).unwrap();

        compute
            .copy(compute.mapped(&source).unwrap(), &mut device)
            .unwrap();
        let mapped = compute.mapped_mut(&mut target).unwrap();
        compute.copy(&device, mapped).unwrap();
        assert_eq!(compute.copy_to_vec(mapped).unwrap(), numbers(1.0));
        compute.copy_from_slice(&numbers(2.0), mapped).unwrap();
        assert_eq!(compute.copy_to_vec(&mapped[7..9]).unwrap(), [14.0, 16.0]);
        compute.copy_to_device(&source, mapped).unwrap();
        let copied = compute.alloc_uninit(LEN).unwrap();
        let copied = compute.init_from(copied, mapped).unwrap();
        assert_eq!(compute.copy_to_vec(&copied).unwrap(), numbers(1.0));

        // Another stream gets the view for a while.
        compute
            .lend(&other, mapped, |view| other.fill(&mut view[..10], 4.0))
            .unwrap()
            .unwrap();
        assert_eq!(compute.copy_to_vec(&mapped[9..11]).unwrap(), [4.0, 10.0]);

        // The view inside the capture is mapped there.
        let mut graph = compute
            .capture((source, target), |stream, (source, mut target)| {
                let target = stream.mapped_mut(&mut target)?;
                scale(stream, GRID(LEN), stream.mapped(&source)?, &mut *target, 3.0)?;
                stream.fill(&mut target[..1], -1.0)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        graph
            .host(|(_, target)| {
                assert_eq!(target.as_slice()[0], -1.0);
                assert_eq!(target.as_slice()[1..], numbers(3.0)[1..]);
            })
            .unwrap();
    });
}

/// Two parts of one block, of single bytes, belong to two streams at once. Neither writes the
/// other's bytes.
#[test]
fn parts_of_a_block_are_written_by_two_streams() {
    for_each_device(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let mut first = gpu.pinned::<u8>(101).unwrap();
        let rest = first.split_off(33);
        let (mut first, mut rest) = (compute.adopt(first).unwrap(), other.adopt(rest).unwrap());
        for round in 1..20 {
            compute
                .fill(compute.mapped_mut(&mut first).unwrap(), round)
                .unwrap();
            other
                .fill(other.mapped_mut(&mut rest).unwrap(), 100 + round)
                .unwrap();
        }
        let first = compute.release(first).unwrap().synchronize().unwrap();
        let rest = other.release(rest).unwrap().synchronize().unwrap();
        assert_eq!(*first, [19; 33]);
        assert_eq!(*rest, [119; 68]);
    });
}

#[test]
fn views_of_no_elements_need_no_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut none = compute.adopt(gpu.pinned::<f32>(0).unwrap()).unwrap();
        assert!(compute.mapped(&none).unwrap().is_empty());
        compute.fill(compute.mapped_mut(&mut none).unwrap(), 1.0).unwrap();
        let some = adopted(&gpu, &compute, &[1.0]);
        assert!(compute.mapped(&some[1..]).unwrap().is_empty());
        let none = compute.adopt(gpu.pinned_uninit::<u32>(0).unwrap()).unwrap();
        assert!(compute.init_host_filled(none, 1).unwrap().is_empty());
        assert_eq!(gpu.simulator().unwrap().counters().calls(Call::MappedAddress), 0);
    })
    .unwrap();
}

/// The address that a view prints is what the driver gave, and parts follow it.
#[test]
fn a_view_keeps_length_and_order_of_its_elements() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let host = adopted(gpu, &compute, &numbers(1.0));
        let whole: &DeviceSlice<f32, _> = compute.mapped(&host).unwrap();
        let part = compute.mapped(&host[10..]).unwrap();
        assert_eq!((whole.len(), part.len()), (LEN, LEN - 10));
        assert_eq!(part.address().0 - whole.address().0, 40);
        assert_eq!(whole[10..].address(), part.address());
    });
}

/// A call that fails gives what it was given back, and nothing is lost.
#[test]
fn memory_that_cannot_be_mapped_comes_back() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut host = adopted(&gpu, &compute, &[1_u32; 8]);
        let fail = || simulator.fail_next(Call::MappedAddress, ErrorCode::INVALID_VALUE);

        fail();
        let error = compute.mapped(&host).unwrap_err();
        assert!(error.to_string().contains("Stream::mapped"), "{error}");
        fail();
        let error = compute.mapped_mut(&mut host).unwrap_err();
        assert_eq!(error.driver().unwrap().code(), ErrorCode::INVALID_VALUE);
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [1; 8]);

        let uninit = compute.adopt(gpu.pinned_uninit::<u32>(8).unwrap()).unwrap();
        fail();
        let refused = compute.mapped_output(uninit).unwrap_err();
        assert!(refused.error.to_string().contains("Stream::mapped_output"));
        let free = gpu.pinned_stats().blocks_free;
        fail();
        let error = compute.init_host_filled(refused.value, 3).unwrap_err();
        assert!(error.to_string().contains("Stream::init_host_filled"), "{error}");
        assert_eq!(gpu.pinned_stats().blocks_free, free + 1);
    })
    .unwrap();
}

/// A launch that is refused gives the output back, and the output its buffer.
#[test]
fn a_refused_launch_gives_the_output_back() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let one = compute.alloc_from_slice(&[1.0; LEN]).unwrap();
        let uninit = compute.adopt(gpu.pinned_uninit::<f32>(LEN).unwrap()).unwrap();
        let output = compute.mapped_output(uninit).unwrap();
        assert!(format!("{output:?}").contains("1000 elements"));
        let refused = add(&compute, GRID(LEN - 300), &one, &one, output).unwrap_err();
        let output = compute.mapped_output(refused.value.into_buffer()).unwrap();
        let sum = add(&compute, GRID(LEN), &one, &one, output).unwrap();
        assert_eq!(*compute.release(sum).unwrap().synchronize().unwrap(), [2.0; LEN]);
    })
    .unwrap();
}
