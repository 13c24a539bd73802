//! Other CUDA code in the process: it changes the current context and captures in global mode.

#![allow(clippy::disallowed_methods, reason = "raw calls are what others make")]

use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_rt::driver::Driver;
use cuda_rt::driver_cuda::{ContextCheck, CudaDriver};
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};

use crate::fixtures::ECHO;
use crate::support::{Rig, SLOW};

#[track_caller]
fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// A capture in global mode also refuses raw calls of other threads, so these cases run one at a
/// time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes calls of every kind; `disturb` changes the current context before each.
fn all_kinds_of_calls(driver: &Arc<dyn Driver>, disturb: impl Fn()) {
    disturb();
    let rig = Rig::new(driver);
    let disturbed = || {
        disturb();
        &rig
    };
    let (stream, other) = (disturbed().stream(), disturbed().stream());
    let (event, timing) = (disturbed().event(), disturbed().timing_event());
    let block = disturbed().block(4000, stream);
    let host = disturbed().host(4000);
    disturbed().fill(block, &[1, 0, 0, 0], stream);
    disturbed().step(block, SLOW, 2, 1, stream); // 3
    disturbed().record(event, stream);
    disturbed().wait(other, event);
    disturbed().step(block, SLOW, 2, 1, other); // 7
    disturbed().record(timing, other);
    let copy = disturbed().alloc(4000, other).expect("allocate");
    disturbed().copy(copy, block, other);
    disturbed().download(host, copy, other);
    disturbed().free(copy, other);
    disturbed().query(timing);
    disturbed().synchronize_event(timing);
    disturbed().synchronize(other);
    assert_eq!(host.words(), [7; 1000]);
    disturbed().upload(block, host, stream);
    disturbed().begin_capture(stream);
    disturbed().step(block, 0, 1, 1, stream);
    let graph = disturbed().end_capture(stream).expect("a graph");
    disturbed().launch_graph(graph, stream);
    disturbed().destroy_graph(graph);
    disturb();
    driver.memory_info().expect("memory info");
    disturb();
    driver.prepare(&ECHO).expect("prepare");
    assert_eq!(disturbed().read_words(block, stream), [8; 1000]);
    disturb();
    drop(rig);
}

/// Runs a case with each way to check the current context.
fn with_each_check(case: impl Fn()) {
    let driver = CudaDriver::open(0).expect("open");
    for check in [ContextCheck::EveryCall, ContextCheck::WhenRefused] {
        driver.set_context_check(check);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&case));
        driver.set_context_check(ContextCheck::DEFAULT);
        if let Err(panic) = outcome {
            eprintln!("failed with {check:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

pub(crate) fn no_context_current(driver: &Arc<dyn Driver>) {
    let _alone = alone();
    with_each_check(|| {
        all_kinds_of_calls(driver, || {
            // SAFETY: CUDA allows that no context is current.
            ok(unsafe { sys::cuCtxSetCurrent(ptr::null_mut()) });
        });
    });
}

pub(crate) fn another_context_current(driver: &Arc<dyn Driver>) {
    let _alone = alone();
    let mut device = 0;
    // SAFETY: the pointer is to a live device number, and the driver is initialised.
    ok(unsafe { sys::cuDeviceGet(&mut device, 0) });
    let mut context = ptr::null_mut();
    // SAFETY: the pointer is to a live context handle.
    ok(unsafe { sys::cuCtxCreate_v2(&mut context, 0, device) });
    with_each_check(|| {
        all_kinds_of_calls(driver, || {
            // SAFETY: the context is live.
            ok(unsafe { sys::cuCtxSetCurrent(context) });
        });
    });
    // SAFETY: the context is live, and not used again.
    ok(unsafe { sys::cuCtxDestroy_v2(context) });
}

/// Other code captures in global mode on another thread: our calls neither fail nor end its
/// capture.
pub(crate) fn a_capture_of_other_code(driver: &Arc<dyn Driver>) {
    let _alone = alone();
    // A call of ours makes the context current.
    driver.memory_info().expect("memory info");
    let mut theirs = ptr::null_mut();
    // SAFETY: the pointer is to a live stream handle.
    ok(unsafe { sys::cuStreamCreate(&mut theirs, 1) });
    for mode in [
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    ] {
        // SAFETY: the stream was just created.
        ok(unsafe { sys::cuStreamBeginCapture_v2(theirs, mode) });
        // From the thread that captures, and from another thread.
        all_kinds_of_calls(driver, || {});
        std::thread::scope(|scope| {
            scope.spawn(|| all_kinds_of_calls(driver, || {}));
        });
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is live, and this thread captures it.
        ok(unsafe { sys::cuStreamEndCapture(theirs, &mut graph) });
        assert!(!graph.is_null());
        let mut nodes = 1;
        // SAFETY: the graph is live; without an array only the number of nodes is written.
        ok(unsafe { sys::cuGraphGetNodes(graph, ptr::null_mut(), &mut nodes) });
        assert_eq!(nodes, 0, "none of our work is in their graph");
        // SAFETY: the graph is live, and not used again.
        ok(unsafe { sys::cuGraphDestroy(graph) });
    }
    // SAFETY: the stream is live, and not used again.
    ok(unsafe { sys::cuStreamDestroy_v2(theirs) });
}

/// HC07: what a capture in CUDA's default mode reports when another thread ends it.
pub(crate) fn a_global_capture_ended_by_another_thread(driver: &Arc<dyn Driver>) {
    let _alone = alone();
    driver.memory_info().expect("memory info");
    let mut theirs = ptr::null_mut();
    // SAFETY: the pointer is to a live stream handle.
    ok(unsafe { sys::cuStreamCreate(&mut theirs, 1) });
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream was just created.
    ok(unsafe { sys::cuStreamBeginCapture_v2(theirs, mode) });
    let address = theirs.expose_provenance();
    let other = std::thread::spawn(move || {
        let mut graph = ptr::null_mut();
        // SAFETY: the stream lives until the thread is joined, and the other thread waits.
        let ended = unsafe { sys::cuStreamEndCapture(ptr::with_exposed_provenance_mut(address), &mut graph) };
        ended as u32
    });
    assert_eq!(
        other.join().expect("no panic"),
        cuda_rt::driver::ErrorCode::STREAM_CAPTURE_WRONG_THREAD.0
    );
    let mut graph = ptr::null_mut();
    // SAFETY: the stream is live, and this thread captures it. CUDA does not say whether the other
    // thread's call ended the capture.
    let _ = unsafe { sys::cuStreamEndCapture(theirs, &mut graph) };
    if !graph.is_null() {
        // SAFETY: the graph is live, and not used again.
        ok(unsafe { sys::cuGraphDestroy(graph) });
    }
    // SAFETY: the stream is live, and not used again.
    ok(unsafe { sys::cuStreamDestroy_v2(theirs) });
}

pub(crate) fn one_driver_for_each_ordinal(_: &Arc<dyn Driver>) {
    let drivers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| CudaDriver::open(0).expect("open")))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(drivers.iter().all(|driver| Arc::ptr_eq(driver, &drivers[0])));
    let count = CudaDriver::count().expect("count");
    assert!(count > 0);
    assert!(CudaDriver::open(count).is_err());
    assert!(CudaDriver::open(usize::MAX).is_err());
}
