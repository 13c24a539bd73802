//! The crate cust and this library in one program. Most tests need a GPU; a simulated device
//! refuses cust's objects.
#![cfg(feature = "cust")]

use cuda_rt::interop::cust::cust::context::Context;
use cuda_rt::interop::cust::cust::memory::{CopyDestination, DeviceBuffer, LockedBuffer};
use cuda_rt::interop::cust::cust::module::Module;
use cuda_rt::interop::cust::cust::stream::{Stream, StreamFlags};
use cuda_rt::interop::cust::cust::{self, launch};
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1, Scoped};

cuda_rt::streams! {
    Compute;
    Download;
}

const N: usize = 100_000;

/// A context of cust on the first GPU. Without a GPU it prints a message and returns `None`; with
/// `CUDA_RT_REQUIRE_GPU=1` that is a failure.
fn context() -> Option<Context> {
    match cust::quick_init() {
        Ok(context) => Some(context),
        Err(error) => {
            assert!(
                std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
                "CUDA_RT_REQUIRE_GPU is set, and cust says {error:?}"
            );
            eprintln!("SKIPPED ON CUDA: there is no GPU");
            None
        }
    }
}

fn on_cust(body: impl for<'id> FnOnce(Device<Scoped<'id>>)) {
    if let Some(context) = context() {
        Device::with_cust(context, body).unwrap();
    }
}

fn stream() -> Stream {
    Stream::new(StreamFlags::DEFAULT, None).unwrap()
}

fn numbers() -> Vec<f32> {
    (0..N).map(|i| i as f32).collect()
}

#[test]
fn buffers_of_both_origins_are_adopted_with_their_contents() {
    on_cust(|gpu| {
        let (compute, theirs) = (gpu.stream::<Compute<_>>().unwrap(), stream());
        let allocated = DeviceBuffer::from_slice(&numbers()).unwrap();
        let numbers = numbers();
        // SAFETY: `numbers` outlives the copy, which adoption waits for.
        let pooled = unsafe { DeviceBuffer::from_slice_async(&numbers, &theirs) }.unwrap();
        for buffer in [allocated, pooled] {
            // SAFETY: the test keeps no slice of the buffer, and there is one context.
            let ours = unsafe { compute.adopt_cust_buffer(buffer) }.unwrap();
            let mut host = compute.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
            compute.copy_to_host(&ours, &mut host).unwrap();
            let (ours, host) = compute.release((ours, host)).unwrap().synchronize().unwrap();
            assert_eq!(host[..], numbers[..]);
            // Back to cust, with the values written meanwhile.
            let mut ours = compute.acquire(cuda_rt::Handoff::ready(ours)).unwrap();
            compute.fill(&mut ours, 7.5).unwrap();
            let idle = compute.release(ours).unwrap().synchronize().unwrap();
            let theirs = idle.into_cust().unwrap();
            let mut read = vec![0.0; N];
            theirs.copy_to(&mut read).unwrap();
            assert_eq!(read, vec![7.5; N]);
        }
        let empty = DeviceBuffer::<f32>::from_slice(&[]).unwrap();
        // SAFETY: the buffer is empty.
        assert!(unsafe { compute.adopt_cust_buffer(empty) }.unwrap().is_empty());
    });
}

/// Adoption waits for work that cust enqueued before, because no type says that this work is done.
#[test]
fn a_buffer_with_work_pending_is_adopted_after_it() {
    on_cust(|gpu| {
        let (compute, theirs) = (gpu.stream::<Compute<_>>().unwrap(), stream());
        const BYTES: usize = 1 << 28;
        // SAFETY: the buffer is written below, before it is read.
        let mut buffer = unsafe { DeviceBuffer::<u8>::uninitialized_async(BYTES, &theirs) }.unwrap();
        for value in 0..50 {
            // SAFETY: the fill is in bounds, and the buffer is read only after adoption.
            unsafe { buffer.set_8_async(value, &theirs) }.unwrap();
        }
        // SAFETY: the test keeps no slice of the buffer, and there is one context.
        let ours = unsafe { compute.adopt_cust_buffer(buffer) }.unwrap();
        let mut host = compute.adopt(gpu.pinned::<u8>(BYTES).unwrap()).unwrap();
        compute.copy_to_host(&ours, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(host.iter().all(|byte| *byte == 49));
    });
}

/// Cust's safe copies do not wait. Cust's drop waits only for memory outside pools.
#[test]
fn work_of_custs_safe_calls_reaches_no_memory_of_the_pool() {
    on_cust(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        const BYTES: usize = 1 << 28;
        let pattern = DeviceBuffer::from_slice(&vec![0xab_u8; BYTES]).unwrap();
        // Work ahead of the copy on the default stream, which takes longer than the test.
        let mut busy = DeviceBuffer::from_slice(&vec![0_u8; BYTES]).unwrap();
        let idle = compute
            .release(compute.alloc_zeroed::<u8>(BYTES).unwrap())
            .unwrap();
        let mut lent = idle.synchronize().unwrap().into_cust().unwrap();
        for _ in 0..200 {
            busy.copy_from(&pattern).unwrap();
        }
        lent.copy_from(&pattern).unwrap();
        drop(lent);
        let mut mine = compute.alloc_zeroed::<u8>(BYTES).unwrap();
        compute.fill(&mut mine, 7).unwrap();
        compute.synchronize().unwrap();
        cust::context::CurrentContext::synchronize().unwrap();
        let mut host = compute.adopt(gpu.pinned::<u8>(BYTES).unwrap()).unwrap();
        compute.copy_to_host(&mine, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(host.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn work_of_both_on_one_stream_is_in_its_order() {
    on_cust(|gpu| {
        let (download, theirs) = (gpu.stream::<Download<_>>().unwrap(), stream());
        let handoff = gpu
            .adopt_cust_stream(&theirs, |ours| -> cuda_rt::Result<_> {
                let mut data = ours.alloc_zeroed::<f32>(N)?;
                let mut copy = ours.alloc_zeroed::<f32>(N)?;
                ours.fill(&mut data, 3.0)?;
                device_kernels::scale(ours, Grid1::covering(N), &data, &mut copy, 2.0)?;
                let pointer = copy.cust_pointer();
                // SAFETY: the slice is the first half of `copy`.
                let mut half = unsafe { cust::memory::DeviceSlice::from_raw_parts_mut(pointer, N / 2) };
                // SAFETY: the fill runs on the lent stream; any bits are an `f32`.
                let set = |stream: &Stream| unsafe { half.set_32_async(1.0_f32.to_bits(), stream) };
                let call = ours.foreign("set").writes(&mut copy);
                // SAFETY: the closure enqueues one fill, on the lent stream, of the stated memory.
                unsafe { call.enqueue_cust(set) }?.unwrap();
                ours.release(copy)
            })
            .unwrap();
        let copy = download.acquire(handoff).unwrap();
        let mut host = download.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
        download.copy_to_host(&copy, &mut host).unwrap();
        let host = download.release(host).unwrap().synchronize().unwrap();
        assert!(host[..N / 2].iter().all(|x| *x == 1.0) && host[N / 2..].iter().all(|x| *x == 6.0));
    });
}

#[test]
fn pinned_buffers_are_copied() {
    on_cust(|gpu| {
        let theirs = LockedBuffer::from_slice(&numbers()).unwrap();
        let ours = gpu.adopt_cust_pinned(theirs).unwrap();
        assert_eq!(ours[..], numbers()[..]);
    });
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let Some(context) = context() else { return };
    let device = cust::device::Device::get_device(0).unwrap();
    let other = cust::context::legacy::Context::create_and_push(
        cust::context::legacy::ContextFlags::SCHED_AUTO,
        device,
    )
    .unwrap();
    let foreign = stream();
    Device::with_cust(context, |gpu| {
        let adopted = gpu.adopt_cust_stream(&foreign, |_| -> cuda_rt::Result<()> { panic!("it ran") });
        let words = adopted.unwrap_err().to_string();
        assert!(words.contains("another context"), "{words}");
    })
    .unwrap();
    drop((foreign, other));
}

const SQUARE: &str = include_str!("../../examples/from-cust/square.ptx");

// SAFETY: the kernels are launched only through the call for foreign kernels.
static IMAGE: ModuleImage = unsafe { ModuleImage::new("tests, adopted", "") };

/// The kernel's module is loaded by cust: the image's text is empty.
static KERNEL: Kernel = Kernel {
    name: "cust::square",
    symbol: c"square",
    file: file!(),
    line: line!(),
    module: &IMAGE,
    parameters: &[
        Parameter {
            size_bytes: 8,
            align_bytes: 8,
            kind: ParameterKind::Write { element_bytes: 4 },
        },
        Parameter {
            size_bytes: 8,
            align_bytes: 8,
            kind: ParameterKind::Length,
        },
    ],
    layout: &[],
    simulate: |_, _| unreachable!("it is launched on a GPU only"),
    cache: KernelCache::new(),
};

#[test]
fn a_kernel_of_custs_module_is_launched_with_typed_arguments() {
    on_cust(|gpu| {
        let module = Module::from_ptx(SQUARE, &[]).unwrap();
        // SAFETY: the module was loaded in the primary context. It is kept loaded, and holds the
        // one kernel that refers to the image.
        assert!(unsafe { gpu.adopt_cust_module(&IMAGE, module) }.unwrap());
        let again = Module::from_ptx(SQUARE, &[]).unwrap();
        // SAFETY: as above.
        assert!(!unsafe { gpu.adopt_cust_module(&IMAGE, again) }.unwrap());

        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(N).unwrap();
        compute.fill(&mut data, 3.0).unwrap();
        let shape = LaunchShape {
            grid: [N.div_ceil(256) as u32, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
            extent: Extent {
                x: N as u64,
                y: 1,
                z: 1,
            },
        };
        let launch = compute.foreign_kernel(&KERNEL).write(&mut data);
        // SAFETY: the entry has these parameters, and writes this many elements.
        unsafe { launch.launch(&shape) }.unwrap();
        let mut host = compute.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
        compute.copy_to_host(&data, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(host.iter().all(|x| *x == 9.0));
    });
}

/// A launch by cust, of memory that this library owns meanwhile.
#[test]
fn a_launch_of_custs_on_a_stream_of_ours() {
    on_cust(|gpu| {
        let module = Module::from_ptx(SQUARE, &[]).unwrap();
        let square = module.get_function("square").unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(N).unwrap();
        compute.fill(&mut data, 4.0).unwrap();
        let (pointer, n) = (data.cust_pointer(), N as u64);
        let blocks = N.div_ceil(256) as u32;
        let call = compute.foreign("square").writes(&mut data);
        let launch = |stream: &Stream| {
            // SAFETY: these are the kernel's parameters, and it writes `n` elements from there.
            unsafe { launch!(square<<<blocks, 256, 0, stream>>>(pointer, n)) }
        };
        // SAFETY: the closure makes one launch, on the lent stream, of the stated memory.
        unsafe { call.enqueue_cust(launch) }.unwrap().unwrap();
        let mut host = compute.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
        compute.copy_to_host(&data, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(host.iter().all(|x| *x == 16.0));
        // The module is unloaded here: all its work is done.
    });
}

#[test]
fn a_simulated_device_has_nothing_for_cust() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let data = compute.alloc_zeroed::<f32>(4).unwrap();
        let call = compute.foreign("none").reads(&data);
        // SAFETY: the body does not run.
        let refused = unsafe { call.enqueue_cust(|_| panic!("it ran")) };
        assert!(refused.unwrap_err().to_string().contains("simulated"));
        let idle = compute.release(data).unwrap().synchronize().unwrap();
        let refused = idle.into_cust().unwrap_err();
        assert_eq!(refused.value.map(|data| data.len()), Some(4), "as it was");
    })
    .unwrap();
}

/// Misuse of the safe methods does not compile.
#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/cust/*.rs");
}
