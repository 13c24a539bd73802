//! Hand-written kernels with typed arguments.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::interop::ForeignLaunch;
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceSlice};

use super::{Compute, Download, LEN, read};
use crate::devices::for_each_device;

/// Computes `y[i] = a * x[i] + y[i]` for unsigned numbers, as another compiler might have written
/// it.
const AXPY_PTX: &str = r"
.version 7.0
.target sm_70
.address_size 64
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .u64 n, .param .u32 a)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u64 %rd3, [n];
    ld.param.u32 %r1, [a];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    cvt.u64.u32 %rd4, %r2;
    setp.ge.u64 %p, %rd4, %rd3;
    @%p bra done;
    shl.b64 %rd5, %rd4, 2;
    add.u64 %rd6, %rd1, %rd5;
    add.u64 %rd7, %rd2, %rd5;
    ld.global.u32 %r5, [%rd6];
    ld.global.u32 %r6, [%rd7];
    mad.lo.u32 %r7, %r5, %r1, %r6;
    st.global.u32 [%rd7], %r7;
done:
    ret;
}
";

// SAFETY: the image's one kernel is launched only through `foreign_kernel`.
static MODULE: ModuleImage = unsafe { ModuleImage::new("by hand", AXPY_PTX) };

const fn parameter<T>(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: size_of::<T>(),
        align_bytes: align_of::<T>(),
        kind,
    }
}

static AXPY: Kernel = Kernel {
    name: "axpy",
    symbol: c"axpy",
    file: file!(),
    line: line!(),
    module: &MODULE,
    // The first buffer has no length parameter: both have the same length.
    parameters: &[
        parameter::<u64>(ParameterKind::Read { element_bytes: 4 }),
        parameter::<u64>(ParameterKind::Write { element_bytes: 4 }),
        parameter::<u64>(ParameterKind::Length),
        parameter::<u32>(ParameterKind::Scalar),
    ],
    layout: &[],
    simulate: axpy,
    cache: KernelCache::new(),
};

/// # Safety
/// As [`Kernel::simulate`].
unsafe fn axpy(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: four parameters.
    let [x, y, n, a] = unsafe { parameters.cast::<[*const c_void; 4]>().read() };
    // SAFETY: the first is an address.
    let x: *const u32 = std::ptr::with_exposed_provenance(unsafe { x.cast::<u64>().read() } as usize);
    // SAFETY: the second is an address.
    let y: *mut u32 = std::ptr::with_exposed_provenance_mut(unsafe { y.cast::<u64>().read() } as usize);
    // SAFETY: the third is a length.
    let n = unsafe { n.cast::<u64>().read() } as usize;
    // SAFETY: the fourth is a number.
    let a = unsafe { a.cast::<u32>().read() };
    // SAFETY: by this function's contract there are `n` elements, and nothing else uses them.
    let x = unsafe { std::slice::from_raw_parts(x, n) };
    // SAFETY: as above.
    let y = unsafe { std::slice::from_raw_parts_mut(y, n) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.wrapping_mul(a).wrapping_add(*y);
    }
}

const SHAPE: LaunchShape = LaunchShape {
    grid: [4, 1, 1],
    block: [32, 1, 1],
    shared_bytes: 0,
    extent: Extent {
        x: LEN as u64,
        y: 1,
        z: 1,
    },
};

#[test]
fn a_kernel_written_by_hand_runs_in_order() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut x = download.alloc_zeroed::<u32>(LEN).unwrap();
        download.fill(&mut x, 3).unwrap();
        let x = compute.acquire(download.release(x).unwrap()).unwrap();
        let mut y = compute.alloc_zeroed::<u32>(LEN).unwrap();
        compute.fill(&mut y, 100).unwrap();
        for a in [5, 7] {
            let launch = compute
                .foreign_kernel(&AXPY)
                .read(&x)
                .write(&mut y)
                .value::<u32>(a);
            // SAFETY: the PTX above has this entry, with these parameters; `x` is as long as `y`.
            unsafe { launch.launch(&SHAPE) }.unwrap();
        }
        assert_eq!(read(gpu, y), [100 + 3 * 5 + 3 * 7; LEN]);
    });
}

#[test]
fn arguments_that_are_not_the_kernels_panic_before_anything_is_enqueued() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let x = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let mut y = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let wide = compute.alloc_zeroed::<u64>(LEN).unwrap();
        let before = gpu.simulator().unwrap().counters().operations_pending;
        type Start<'a, 'b, D> = ForeignLaunch<'a, Compute<D>>;
        let mut refused = |build: &mut dyn FnMut(Start<'_, '_, _>, &mut DeviceSlice<u32, _>)| {
            let launch = compute.foreign_kernel(&AXPY);
            let payload = catch_unwind(AssertUnwindSafe(|| build(launch, &mut y))).unwrap_err();
            let message = payload.downcast::<String>().unwrap();
            assert!(message.contains("`axpy`"), "{message}");
        };
        refused(&mut |launch, _| drop(launch.read(&wide)));
        refused(&mut |launch, y| drop(launch.write(y)));
        refused(&mut |launch, _| drop(launch.value(1u64)));
        refused(&mut |launch, y| drop(launch.read(&x).write(y).value(1u64)));
        refused(&mut |launch, y| drop(launch.read(&x).write(y).value(1u32).value(1u32)));
        // SAFETY: the kernel is not launched.
        refused(&mut |launch, y| drop(unsafe { launch.read(&x).write(y).launch(&SHAPE) }));
        assert_eq!(before, gpu.simulator().unwrap().counters().operations_pending);
    })
    .unwrap();
}
