//! Measures the cost of the driver trait and of the typed API over raw calls, on the first GPU:
//! `cargo bench -p cuda-handoff --bench overhead`.
//!
//! The ways are measured in alternating rounds of one run, so clocks and other processes affect all
//! ways alike. The figures are medians over the rounds. Ratios compare each way with the raw calls
//! of the same round. Prints a table, the result of each call with no context or another context
//! current, and the same figures as one line of JSON. Without a GPU it measures nothing, and says
//! so.
#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

mod ways;

use std::ffi::c_void;
use std::ptr;

use cuda_rt::driver::{Driver, Events, Kernels, RawEvent, RawStream, Streams};
use cuda_rt::driver_cuda::{ContextCheck, CudaDriver};
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage};
use cuda_rt::{Device, Live};
use cudarc::driver::sys::{self, CUresult};
use ways::{Group, ROUNDS};

/// Calls timed together.
const CALLS: u32 = 200;

// SAFETY: the PTX holds the entry of the kernel below, with its one parameter.
static MODULE: ModuleImage = unsafe {
    ModuleImage::new(
        "bench",
        ".version 7.0\n.target sm_80\n.address_size 64\n\
          .visible .entry empty(.param .align 8 .b8 extent[24]) { ret; }\n",
    )
};

static EMPTY: Kernel = Kernel {
    name: "bench::empty",
    symbol: c"empty",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[cuda_rt::kernel::Parameter {
        size_bytes: size_of::<Extent>(),
        align_bytes: align_of::<Extent>(),
        kind: cuda_rt::kernel::ParameterKind::Extent,
    }],
    layout: &[],
    simulate: nothing,
    cache: KernelCache::new(),
};

/// # Safety
/// None is needed.
unsafe fn nothing(_: &LaunchShape, _: *const *const c_void) {}

const ONE: Extent = Extent { x: 1, y: 1, z: 1 };
const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [1; 3],
    shared_bytes: 0,
    extent: ONE,
};

#[track_caller]
fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

fn main() {
    let driver = match CudaDriver::open(0) {
        Ok(driver) => driver,
        Err(why) if std::env::var_os("CUDA_RT_REQUIRE_GPU").is_some() => panic!("{why}"),
        Err(why) => return println!("SKIPPED, nothing was measured: {why}"),
    };
    let properties = driver.properties();
    println!(
        "{} (driver {}), {CALLS} calls x {ROUNDS} rounds",
        properties.name, properties.driver_version
    );

    let stream = driver.create_stream(0).expect("create a stream");
    let other = driver.create_stream(0).expect("create a stream");
    let event = driver.create_event(false).expect("create an event");
    driver.prepare(&EMPTY).expect("prepare");
    let back = driver.create_event(false).expect("create an event");
    let raw = Raw::new(stream, other, event, back);

    let settle = || {
        for stream in [stream, other] {
            // SAFETY: the handles are live.
            unsafe { driver.synchronize_stream(stream) }.expect("synchronize");
        }
    };
    let dyn_driver: &dyn Driver = &*driver;
    let handoff = || {
        // SAFETY: the handles are live.
        unsafe { dyn_driver.record_event(event, stream) }.expect("record");
        // SAFETY: the handles are live.
        unsafe { dyn_driver.wait_event(other, event) }.expect("wait");
    };
    let launch = || {
        let parameters = [ptr::from_ref(&ONE).cast()];
        // SAFETY: the parameters are the kernel's.
        unsafe { dyn_driver.launch(&EMPTY, &SHAPE, &parameters, stream) }.expect("launch");
    };
    let alloc = || {
        // SAFETY: the handles are live.
        let address = unsafe { dyn_driver.alloc(1 << 20, stream) }.expect("alloc");
        // SAFETY: the address is from `alloc`, and nothing uses the memory.
        unsafe { dyn_driver.free(address, stream) }.expect("free");
    };

    let mut json = Vec::new();
    // Switching the check costs one store, the same for both ways.
    let every_call = |call: &dyn Fn()| {
        driver.set_context_check(ContextCheck::EveryCall);
        call();
    };
    let when_refused = |call: &dyn Fn()| {
        driver.set_context_check(ContextCheck::WhenRefused);
        call();
    };
    let mut groups = [
        Group::new("record + wait")
            .way("raw", || raw.handoff())
            .way("raw, after cuCtxGetCurrent for each", || raw.checked_handoff())
            .way("Driver, context checked at each call", || every_call(&handoff))
            .way("Driver, context checked when refused", || when_refused(&handoff)),
        Group::new("launch")
            .way("raw", || raw.launch())
            .way("raw, after cuCtxGetCurrent", || raw.checked_launch())
            .way("Driver, context checked at each call", || every_call(&launch))
            .way("Driver, context checked when refused", || when_refused(&launch)),
        Group::new("alloc + free, 1 MiB")
            .way("raw, default pool", || raw.alloc())
            .way("Driver", || every_call(&alloc)),
        Group::new("bits")
            .way("raw cuCtxGetCurrent", || raw.current())
            .way("raw cuThreadExchangeStreamCaptureMode", || raw.exchange_mode())
            .way("raw cuEventQuery", || raw.query())
            .way("Driver query", || {
                // SAFETY: the handles are live.
                unsafe { dyn_driver.query_event(event) }.map(drop).expect("query");
            }),
    ];
    for group in &mut groups {
        group.run(CALLS, &settle);
        group.report(&mut json);
    }
    driver.set_context_check(ContextCheck::DEFAULT);
    Device::with_gpu(0, |gpu| typed(&gpu, &raw, &settle, &mut json))
        .expect("the GPU that the driver has open");

    println!("raw calls with another current context (0 is success)");
    for (context, call, status) in raw.with_other_contexts() {
        println!("  {context:<12} {call:<20} {status}");
        json.push(format!(
            r#"{{"context":"{context}","call":"{call}","status":{status}}}"#
        ));
    }
    println!("[{}]", json.join(","));
}

cuda_rt::streams! {
    Compute;
    Download;
}

/// Compares the typed API with the raw calls that it makes.
fn typed<D: Live>(gpu: &Device<D>, raw: &Raw, settle: &dyn Fn(), json: &mut Vec<String>) {
    let (compute, download) = (
        gpu.stream::<Compute<D>>().expect("create a stream"),
        gpu.stream::<Download<D>>().expect("create a stream"),
    );
    let settle = || {
        settle();
        compute.synchronize().expect("synchronize");
        download.synchronize().expect("synchronize");
    };
    let mut one = Some(compute.alloc_zeroed::<f32>(1 << 10).expect("alloc"));
    let mut pair = Some((
        compute.alloc_zeroed::<f32>(1 << 10).expect("alloc"),
        compute
            .adopt(gpu.pinned::<f32>(1 << 10).expect("pinned"))
            .expect("adopt"),
    ));
    let there_and_back = |one: &mut Option<_>| {
        let buffer = one.take().expect("there");
        let buffer = download
            .acquire(compute.release(buffer).expect("release"))
            .expect("acquire");
        *one = Some(
            compute
                .acquire(download.release(buffer).expect("release"))
                .expect("acquire"),
        );
    };
    let pair_there_and_back = |pair: &mut Option<_>| {
        let bundle = pair.take().expect("there");
        let bundle = download
            .acquire(compute.release(bundle).expect("release"))
            .expect("acquire");
        *pair = Some(
            compute
                .acquire(download.release(bundle).expect("release"))
                .expect("acquire"),
        );
    };
    let launch = || {
        let parameters = [ptr::from_ref(&ONE).cast()];
        // SAFETY: the parameters are the kernel's.
        unsafe { compute.__launch(&EMPTY, &SHAPE, &parameters) }.expect("launch");
    };
    let mut groups = [
        Group::new("there and back: two records, two waits")
            .way("raw", || raw.there_and_back())
            .way("release + acquire, a device buffer", || there_and_back(&mut one))
            .way("release + acquire, a device and a pinned buffer", || {
                pair_there_and_back(&mut pair)
            }),
        Group::new("typed launch")
            .way("raw", || raw.launch())
            .way("Stream", launch),
    ];
    for group in &mut groups {
        group.run(CALLS, &settle);
        group.report(json);
    }
}

/// Raw handles of the same objects, which live as long as the process.
struct Raw {
    stream: sys::CUstream,
    other: sys::CUstream,
    event: sys::CUevent,
    back: sys::CUevent,
    function: sys::CUfunction,
    context: sys::CUcontext,
}

impl Raw {
    /// The context must be current.
    fn new(stream: RawStream, other: RawStream, event: RawEvent, back: RawEvent) -> Self {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuCtxGetCurrent(&mut context) });
        let ptx = std::ffi::CString::new(MODULE.ptx).expect("no NUL");
        let mut module = ptr::null_mut();
        // SAFETY: the text ends in a NUL.
        ok(unsafe { sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast()) });
        let mut function = ptr::null_mut();
        // SAFETY: the module is live and has that entry.
        ok(unsafe { sys::cuModuleGetFunction(&mut function, module, c"empty".as_ptr()) });
        Self {
            stream: ptr::with_exposed_provenance_mut(stream.0 as usize),
            other: ptr::with_exposed_provenance_mut(other.0 as usize),
            event: ptr::with_exposed_provenance_mut(event.0 as usize),
            back: ptr::with_exposed_provenance_mut(back.0 as usize),
            function,
            context,
        }
    }

    fn record(&self) -> CUresult {
        // SAFETY: the handles are live.
        unsafe { sys::cuEventRecord(self.event, self.stream) }
    }

    fn wait(&self) -> CUresult {
        // SAFETY: the handles are live.
        unsafe { sys::cuStreamWaitEvent(self.other, self.event, 0) }
    }

    fn launch_status(&self) -> CUresult {
        let mut parameters = [ptr::from_ref(&ONE).cast_mut().cast::<c_void>()];
        let (function, parameters) = (self.function, parameters.as_mut_ptr());
        // SAFETY: the parameters are the kernel's.
        unsafe {
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                self.stream,
                parameters,
                ptr::null_mut(),
            )
        }
    }

    fn handoff(&self) {
        ok(self.record());
        ok(self.wait());
    }

    fn there_and_back(&self) {
        self.handoff();
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuEventRecord(self.back, self.other) });
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuStreamWaitEvent(self.stream, self.back, 0) });
    }

    fn checked_handoff(&self) {
        self.current();
        ok(self.record());
        self.current();
        ok(self.wait());
    }

    fn launch(&self) {
        ok(self.launch_status());
    }

    fn checked_launch(&self) {
        self.current();
        ok(self.launch_status());
    }

    fn alloc(&self) {
        let mut address = 0;
        // SAFETY: the pointer is to a live address, and the stream is live.
        ok(unsafe { sys::cuMemAllocAsync(&mut address, 1 << 20, self.stream) });
        // SAFETY: the memory was allocated just now, and nothing uses it.
        ok(unsafe { sys::cuMemFreeAsync(address, self.stream) });
    }

    fn current(&self) {
        let mut current = ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuCtxGetCurrent(&mut current) });
        assert_eq!(current, self.context);
    }

    fn exchange_mode(&self) {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the pointer is to a live mode.
        ok(unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) });
    }

    fn query(&self) {
        // SAFETY: the handles are live.
        let status = unsafe { sys::cuEventQuery(self.event) };
        assert!(matches!(
            status,
            CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_NOT_READY
        ));
    }

    /// The results of calls on explicit handles while their context is not current.
    fn with_other_contexts(&self) -> Vec<(&'static str, &'static str, u32)> {
        let mut device = 0;
        // SAFETY: the pointer is to a live device number.
        ok(unsafe { sys::cuDeviceGet(&mut device, 0) });
        let mut foreign = ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuCtxCreate_v2(&mut foreign, 0, device) });
        let mut rows = Vec::new();
        for (name, context) in [("none", ptr::null_mut()), ("another", foreign)] {
            // SAFETY: the context is live, or null for no context.
            ok(unsafe { sys::cuCtxSetCurrent(context) });
            rows.push((name, "cuEventRecord", self.record() as u32));
            rows.push((name, "cuStreamWaitEvent", self.wait() as u32));
            rows.push((name, "cuLaunchKernel", self.launch_status() as u32));
            // SAFETY: the handles are live.
            rows.push((name, "cuEventQuery", unsafe { sys::cuEventQuery(self.event) }
                as u32));
            // SAFETY: the handles are live.
            rows.push((
                name,
                "cuStreamSynchronize",
                unsafe { sys::cuStreamSynchronize(self.stream) } as u32,
            ));
        }
        // SAFETY: the context is live. All other objects here belong to it.
        ok(unsafe { sys::cuCtxSetCurrent(self.context) });
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuCtxDestroy_v2(foreign) });
        rows
    }
}
