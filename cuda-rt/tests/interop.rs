//! The doors to foreign code, with raw driver calls as the code behind them.
//!
//! The calls go through the seam, so that all of it runs on a GPU as well.

mod devices;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use cuda_rt::checker::Site;
use cuda_rt::checker::{Check, at_statement};
use cuda_rt::driver::{Driver, ErrorCode, HostMemory};
use cuda_rt::interop::ForeignLaunch;
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{
    Bundle, Captured, Device, DeviceBuffer, DeviceSlice, DeviceViewMut, Error, Live, PinnedSlice, Stream,
};

use devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

type View<'g, D> = DeviceViewMut<'g, u32, Captured<'g, Compute<D>>>;

const LEN: usize = 100;
const BYTES: usize = LEN * 4;

/// What is in a buffer of the compute stream.
fn read<D: Live>(gpu: &Device<D>, buffer: DeviceBuffer<u32, Compute<D>>) -> Vec<u32> {
    let (compute, download) = (
        gpu.stream::<Compute<D>>().unwrap(),
        gpu.stream::<Download<D>>().unwrap(),
    );
    let buffer = download.acquire(compute.release(buffer).unwrap()).unwrap();
    let mut host = download.adopt(gpu.pinned(buffer.len()).unwrap()).unwrap();
    download.copy_to_host(&buffer, &mut host).unwrap();
    download.release(host).unwrap().synchronize().unwrap().to_vec()
}

#[test]
fn a_foreign_call_is_ordered_between_two_handoffs() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut source = download.alloc_zeroed::<u32>(LEN).unwrap();
        download.fill(&mut source, 7).unwrap();
        let source = compute.acquire(download.release(source).unwrap()).unwrap();
        let mut result = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let (from, to, driver) = (source.address(), result.address(), gpu.driver());
        // SAFETY: live, in bounds, and borrowed below for the stream that it is given.
        let copy = |stream| unsafe { driver.copy(to, from, BYTES / 2, stream) };
        let call = compute.foreign("copy half").reads(&source).writes(&mut result);
        // SAFETY: one copy on the stream that it is given, of less than either buffer holds; any
        // bytes are a `u32`.
        let copied = unsafe { call.enqueue(copy) };
        copied.unwrap().unwrap();
        let (left, right) = result.split_at_mut(LEN / 2);
        compute.copy(left, right).unwrap();
        assert_eq!(read(gpu, result), [7; LEN]);
    });
}

/// A rehearsal cannot make a foreign call, so that each update takes a capture.
#[test]
fn a_graph_with_a_foreign_call_is_updated_by_capture() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let driver = gpu.driver();
        let calls = std::cell::Cell::new(0);
        let filled = |value| {
            let buffer = compute.alloc_uninit::<u32>(LEN).unwrap();
            compute.init_filled(buffer, value).unwrap()
        };
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (a, mut b): (View<'g, D>, View<'g, D>),
            driver: &dyn Driver,
            calls: &std::cell::Cell<usize>,
        ) -> cuda_rt::Result<()> {
            let (from, to) = (a.address(), b.address());
            let call = stream.foreign("copy").reads(&a).writes(&mut b);
            let library = |stream| {
                calls.set(calls.get() + 1);
                // SAFETY: live, in bounds, and borrowed for the stream that it is given.
                unsafe { driver.copy(to, from, BYTES, stream) }
            };
            // SAFETY: one copy on the stream that it is given, of what either buffer holds; any
            // bytes are a `u32`.
            unsafe { call.enqueue(library) }?.unwrap();
            Ok(())
        }
        let mut graph = compute
            .capture((filled(1), filled(0)), |stream, pair| {
                body(stream, pair, driver, &calls)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let (_, old) = graph
            .replace((filled(2), filled(0)), |stream, pair| {
                body(stream, pair, driver, &calls)
            })
            .unwrap();
        assert_eq!(calls.get(), 2, "once in each capture, and in no rehearsal");
        graph.launch(&compute).unwrap();
        let (_, new) = graph.into_inner();
        assert_eq!((read(gpu, old), read(gpu, new)), (vec![1; LEN], vec![2; LEN]));
    });
}

#[test]
fn nothing_foreign_runs_once_an_ordering_could_not_be_made() {
    Device::simulated(SimConfig::default(), |gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let simulator = gpu.simulator().unwrap();
        simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
        simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
        compute
            .lend(&download, &mut buffer, |view| download.fill(view, 1))
            .unwrap_err();
        let call = compute.foreign("nothing").writes(&mut buffer);
        // SAFETY: it enqueues nothing.
        let refused = unsafe { call.enqueue(|_| panic!("it ran")) };
        let error = refused.unwrap_err();
        assert!(error.to_string().starts_with("nothing: "), "{error}");
    })
    .unwrap();
}

/// `y[i] = a * x[i] + y[i]`, for unsigned numbers, as another compiler might have made it.
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

// SAFETY: its one kernel is launched through `foreign_kernel` only.
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
    // The first has no length: both are equally long.
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
    // SAFETY: the caller's: `n` elements, which no one else uses.
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
            // SAFETY: the PTX above has that entry, which does that; `x` is as long as `y`.
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
        // SAFETY: it is not launched.
        refused(&mut |launch, y| drop(unsafe { launch.read(&x).write(y).launch(&SHAPE) }));
        assert_eq!(before, gpu.simulator().unwrap().counters().operations_pending);
    })
    .unwrap();
}

/// Runs `body` on a stream of someone else's, which is gone when this returns.
fn on_a_foreign_stream<D: Live, R: Bundle<Device = D>>(
    gpu: &Device<D>,
    body: impl for<'id> FnOnce(&Stream<cuda_rt::interop::Adopted<'id, D>>) -> Result<cuda_rt::Handoff<R>, Error>,
) -> cuda_rt::Handoff<R> {
    let driver = gpu.driver();
    let raw = driver.create_stream(0).unwrap();
    // SAFETY: a live stream of this device, not capturing, destroyed below.
    let handoff = unsafe { gpu.adopt_stream(raw, body) }.unwrap();
    // SAFETY: not used again: what was adopted is out of scope.
    unsafe { driver.destroy_stream(raw) }.unwrap();
    handoff
}

#[test]
fn what_was_made_on_an_adopted_stream_outlives_it() {
    for_each_device(|gpu| {
        let made = || {
            on_a_foreign_stream(gpu, |stream| {
                let mut buffer = stream.alloc_zeroed::<u32>(LEN)?;
                stream.fill(&mut buffer, 9)?;
                // Freed there, in its order.
                drop(stream.alloc_zeroed::<u32>(LEN)?);
                stream.release(buffer)
            })
        };
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let kept = compute.acquire(made()).unwrap();
        drop(made());
        // Idle, and freed after its stream is gone.
        drop(made().synchronize().unwrap());
        let again = compute.adopt(made().synchronize().unwrap()).unwrap();
        assert_eq!(read(gpu, kept), [9; LEN]);
        assert_eq!(read(gpu, again), [9; LEN]);
        // In and out of one adoption after another.
        let bounced = on_a_foreign_stream(gpu, |stream| {
            let mut buffer = stream.acquire(made())?;
            let (left, _) = buffer.split_at_mut(LEN / 2);
            stream.fill(left, 1)?;
            stream.release(buffer)
        });
        let bounced = read(gpu, compute.acquire(bounced).unwrap());
        assert_eq!((bounced[0], bounced[LEN - 1]), (1, 9));
        if let Some(simulator) = gpu.simulator() {
            // Whatever was freed late was freed on streams that are there.
            compute.synchronize().unwrap();
            drop(compute.alloc_zeroed::<u32>(LEN).unwrap());
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

/// Parts whose last uses were on an adopted stream are freed elsewhere: that stream may be gone.
#[test]
fn parts_of_an_adopted_stream_outlive_it() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for left_over in [LEN, LEN / 2] {
            let rest = on_a_foreign_stream(gpu, |stream| {
                let mut buffer = stream.alloc_zeroed::<u32>(LEN)?;
                let rest = buffer.split_off(left_over);
                stream.fill(&mut buffer, 9)?;
                drop(buffer);
                stream.release(rest)
            });
            drop(rest.synchronize().unwrap());
        }
        let shared = compute.share(compute.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
        for value in 0..5 {
            let copy = on_a_foreign_stream(gpu, |stream| {
                let lease = stream.lease(&shared)?;
                stream.release(stream.init_from(stream.alloc_uninit(LEN)?, &lease.view())?)
            });
            let copy = compute.acquire(copy).unwrap();
            assert_eq!(read(gpu, copy), [0; LEN], "{value}");
        }
        let mut back = compute.acquire(shared.reclaim().unwrap()).unwrap();
        compute.fill(&mut back, 1).unwrap();
        assert_eq!(read(gpu, back), [1; LEN]);
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

/// A recording knows every stream that had work, and is finished when an adopted one may be gone.
#[test]
fn a_recording_outlives_an_adopted_stream() {
    for_each_device(|gpu| {
        for by_events in [false, true] {
            let recording = if by_events {
                gpu.record_timeline_by_events()
            } else {
                gpu.record_timeline()
            };
            // Another test may be recording the device.
            let Ok(recording) = recording else { continue };
            let filled = on_a_foreign_stream(gpu, |stream| {
                stream.release(stream.init_filled(stream.alloc_uninit::<u32>(LEN)?, 3)?)
            });
            let filled = filled.synchronize().unwrap();
            let timeline = recording.finish().unwrap();
            assert!(
                timeline
                    .spans()
                    .iter()
                    .any(|span| span.kind == cuda_rt::timeline::Kind::Fill)
            );
            drop(filled);
        }
    });
}

#[test]
#[should_panic(expected = "a part of a block cannot be given away")]
fn a_part_is_not_given_away_by_its_address() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut first = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let second = first.split_off(LEN / 2);
        // Whole again, it is.
        let (address, len) = first.join(second).unwrap().into_raw();
        // SAFETY: given away just now, in the order of the same stream.
        let mut first = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, len) };
        let _second = first.split_off(LEN / 2);
        first.into_raw();
    })
    .unwrap();
}

#[test]
fn two_adoptions_of_one_stream_are_two_streams() {
    for_each_device(|gpu| {
        let driver = gpu.driver();
        let raw = driver.create_stream(0).unwrap();
        // SAFETY: a live stream of this device, not capturing, destroyed below.
        let first = unsafe {
            gpu.adopt_stream(raw, |stream| {
                stream.release(stream.init_filled(stream.alloc_uninit::<u32>(LEN)?, 4)?)
            })
        };
        // SAFETY: as above.
        let host = unsafe {
            gpu.adopt_stream(raw, |stream| {
                let waits = || gpu.simulator().map(|sim| sim.counters().calls(Call::WaitEvent));
                let before = waits();
                let buffer = stream.acquire(first?)?;
                // Its owner may have destroyed the first meanwhile, and CUDA given the handle to
                // another one.
                assert_eq!(
                    waits(),
                    before.map(|count| count + 1),
                    "the same handle is no proof"
                );
                let mut host = stream.adopt(gpu.pinned::<u32>(LEN)?)?;
                stream.copy_to_host(&buffer, &mut host)?;
                stream.release(host)
            })
        };
        let host = host.unwrap();
        // SAFETY: not used again.
        unsafe { driver.destroy_stream(raw) }.unwrap();
        assert_eq!(*host.synchronize().unwrap(), [4; LEN]);
    });
}

#[test]
fn memory_goes_in_and_out_of_our_types() {
    for_each_device(|gpu| {
        let (compute, driver) = (gpu.stream::<Compute<_>>().unwrap(), gpu.driver());
        // SAFETY: the stream is live.
        let address = unsafe { driver.alloc(BYTES, compute.raw()) }.unwrap();
        // SAFETY: allocated in the order of this stream just now, for no one else; of `LEN`
        // elements, not initialised.
        let buffer = unsafe { DeviceBuffer::<MaybeUninit<u32>, _>::from_raw(&compute, address, LEN) };
        let buffer = compute.init_filled(buffer, 6).unwrap();
        assert_eq!(buffer.address(), address);
        let (address, len) = buffer.into_raw();
        // SAFETY: as it was given away, and filled in this stream's order.
        let buffer = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, len) };
        assert_eq!(read(gpu, buffer), [6; LEN]);

        let (address, len) = compute.alloc_zeroed::<u32>(LEN).unwrap().into_raw();
        assert_eq!(len, LEN);
        // SAFETY: given away just now, in this stream's order.
        unsafe { driver.free(address, compute.raw()) }.unwrap();

        // SAFETY: no memory at all.
        let empty =
            unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, cuda_rt::driver::DeviceAddress(0), 0) };
        assert!(empty.is_empty() && empty[..].is_empty());
        drop(empty);
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            gpu.stream::<Download<_>>().unwrap().synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

#[test]
fn memory_that_others_keep_is_lent_to_a_stream() {
    for_each_device(|gpu| {
        let (compute, driver) = (gpu.stream::<Compute<_>>().unwrap(), gpu.driver());
        let memory = HostMemory::map(BYTES).unwrap();
        // SAFETY: freshly mapped, and unmapped last.
        unsafe { driver.register_host(&memory) }.unwrap();
        let start: NonNull<u32> = memory.address().cast();
        // SAFETY: the stream is live.
        let address = unsafe { driver.alloc(BYTES, compute.raw()) }.unwrap();
        {
            // SAFETY: live in this block and until the stream is waited for; no one else uses it;
            // written before it is read.
            let device = unsafe { DeviceSlice::<u32, Compute<_>>::from_raw_parts_mut(address, LEN) };
            // SAFETY: mapped, zeroed and registered above; as above.
            let host = unsafe { PinnedSlice::<u32, Compute<_>>::from_raw_parts_mut(start, LEN) };
            compute.fill(device, 8).unwrap();
            compute.copy_to_host(device, host).unwrap();
            // SAFETY: as above, and no one writes it.
            let again = unsafe { DeviceSlice::<u32, Compute<_>>::from_raw_parts(address, LEN) };
            let buffer = compute
                .init_from(compute.alloc_uninit::<u32>(LEN).unwrap(), again)
                .unwrap();
            // SAFETY: as above: written in this stream's order only.
            let host = unsafe { PinnedSlice::<u32, Compute<_>>::from_raw_parts(start, LEN) };
            let mut copy = compute.alloc_zeroed::<u32>(LEN).unwrap();
            compute.copy_to_device(host, &mut copy).unwrap();
            assert_eq!(read(gpu, copy), [8; LEN]);
            assert_eq!(read(gpu, buffer), [8; LEN]);
        }
        // SAFETY: used no more, in this stream's order.
        unsafe { driver.free(address, compute.raw()) }.unwrap();
        compute.synchronize().unwrap();
        // SAFETY: the copies are over.
        let host = unsafe { std::slice::from_raw_parts(start.as_ptr(), LEN) };
        assert_eq!(host, [8; LEN]);
        // SAFETY: registered above, and used by no pending work.
        unsafe { driver.unregister_host(&memory) }.unwrap();
    });
}

/// One call of ours may make several: a race names the line of the program, not one of ours; or the
/// statement that it is part of.
#[test]
fn a_race_in_a_copy_made_of_others_is_reported_where_the_program_called() {
    let config = SimConfig::new().check(Check::Record);
    Device::simulated(config, |gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut host = [0; 64];
        let mut race_with = |copy: &mut dyn FnMut(&DeviceBuffer<u32, _>, &mut [u32])| {
            let memory = compute.alloc_zeroed::<u32>(64).unwrap();
            compute.synchronize().unwrap();
            // SAFETY: live and in bounds. Nothing orders it before the copy, which is what is to be
            // found; the simulated device runs one operation at a time.
            unsafe { gpu.driver().fill(memory.address(), &[1], 256, other.raw()) }.unwrap();
            copy(&memory, &mut host);
            gpu.races().pop().expect("a race").second.operation
        };

        let line = line!() + 1;
        let operation = race_with(&mut |memory, host| compute.copy_to_slice(memory, host).unwrap());
        let Site::Code(location) = operation.site else {
            panic!("{operation:?}");
        };
        assert_eq!((location.file(), location.line()), (file!(), line));

        let operation = race_with(&mut |memory, host| {
            at_statement(7, || compute.copy_to_slice(memory, host)).unwrap();
        });
        assert_eq!(operation.site, Site::Statement(7));
    })
    .unwrap();
}
