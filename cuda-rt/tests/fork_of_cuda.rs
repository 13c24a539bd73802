//! A process that loads the CUDA driver and forks: no call reaches the driver in a child.
//!
//! The driver is a library that does nothing and counts its calls.

#![cfg(all(target_os = "linux", feature = "cuda"))]

mod null_libcuda;

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Other;
}

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: c_int) -> !;
}

const LEN: usize = 64;

/// The calls that have reached the driver in this process and before it was forked.
fn driver_calls() -> u64 {
    const RTLD_NOW: c_int = 2;
    const RTLD_NOLOAD: c_int = 4;
    let name: &CStr = c"libcuda.so.1";
    // SAFETY: the name ends with a zero. The library is loaded already.
    let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW | RTLD_NOLOAD) };
    assert!(!library.is_null(), "the driver is not loaded");
    // SAFETY: the library is loaded, and the name ends with a zero.
    let function = unsafe { dlsym(library, c"driver_calls".as_ptr()) };
    assert!(!function.is_null(), "another driver is loaded");
    // SAFETY: `instructions/libcuda.c` declares the function like this.
    let function = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(function) };
    function()
}

/// Makes a child as `fork` does, without the handlers of `pthread_atfork`.
fn clone_without_handlers() -> c_int {
    const SYS_CLONE: c_long = if cfg!(target_arch = "x86_64") { 56 } else { 220 };
    const SIGCHLD: c_long = 17;
    const NONE: c_long = 0;
    // SAFETY: the child gets copies of the stack and of all memory, and `in_a_child` says what it
    // does.
    unsafe { syscall(SYS_CLONE, SIGCHLD, NONE, NONE, NONE, NONE) as c_int }
}

fn forked() -> c_int {
    // SAFETY: `in_a_child` says what the child does.
    unsafe { fork() }
}

/// Runs `body` in a child, and asserts that it returns.
fn in_a_child(make: fn() -> c_int, body: impl FnOnce()) {
    let child = make();
    assert!(child >= 0, "no child could be made");
    if child == 0 {
        // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
        unsafe { alarm(100) };
        let done = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: the call ends the process at once, and runs no destructor.
        unsafe { _exit(c_int::from(!done)) };
    }
    let mut status = -1;
    // SAFETY: `child` is a child of this process, and `status` has room for its status.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[track_caller]
fn is_refused<T>(done: Result<T, impl Into<Error>>) {
    let error: Error = done.err().expect("a child makes no call").into();
    let code = error.driver().expect("the driver refuses the call").code();
    assert_eq!(code, ErrorCode::NOT_INITIALIZED, "{error}");
    for part in ["this process was forked", "Fork before the first use", "exec"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

fn every_call_is_refused(make: fn() -> c_int) {
    let gpu = Device::open().unwrap();
    let (compute, other) = (gpu.stream::<Compute>().unwrap(), gpu.stream::<Other>().unwrap());
    let mut data = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let input = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let mut pinned = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
    let moved = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let in_transit = compute
        .release(compute.alloc_zeroed::<f32>(LEN).unwrap())
        .unwrap();
    scale(&compute, Grid1::covering(LEN), &input, &mut data, 2.0).unwrap();
    let before = driver_calls();
    assert!(before > 0);
    in_a_child(make, move || {
        is_refused(Device::count());
        // The device is the parent's, and takes no call.
        is_refused(Device::open().unwrap().memory_info());
        is_refused(gpu.memory_info());
        is_refused(gpu.pinned::<f32>(1 << 20));
        is_refused(compute.alloc_zeroed::<f32>(LEN));
        is_refused(compute.fill(&mut data, 1.0));
        is_refused(compute.copy_to_host(&data, &mut pinned));
        is_refused(scale(&compute, Grid1::covering(LEN), &input, &mut data, 2.0));
        is_refused(compute.synchronize());
        is_refused(compute.release(moved));
        is_refused(other.acquire(in_transit));
        is_refused(compute.capture(data, |_, _| Ok(())));
        // Drops make no call either.
        drop((pinned, input, other, compute, gpu));
        assert_eq!(driver_calls(), before);
    });
}

/// A child may use simulated devices, with all their calls.
fn a_simulated_device_works_in_a_child() {
    in_a_child(forked, || {
        let before = driver_calls();
        let ran = Device::simulated(SimConfig::new(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            let (sender, receiver) = mpsc::channel();
            let enqueued = compute.host_fn(&mut host, move |host: &mut [u32]| {
                host.fill(1);
                sender.send(()).unwrap();
            });
            enqueued.unwrap();
            assert_eq!(compute.release(host).unwrap().synchronize().unwrap()[0], 1);
            receiver.try_recv().unwrap();
        });
        ran.unwrap();
        assert_eq!(driver_calls(), before);
    });
}

#[test]
fn no_call_reaches_the_driver_in_a_child() {
    null_libcuda::over_null_libcuda("no_call_reaches_the_driver_in_a_child", || {
        // A child that is the first to load the driver may use it.
        in_a_child(forked, || {
            let gpu = Device::open().unwrap();
            gpu.memory_info().unwrap();
            assert!(driver_calls() > 0);
        });
        every_call_is_refused(forked);
        every_call_is_refused(clone_without_handlers);
        a_simulated_device_works_in_a_child();
        // The parent goes on.
        Device::open().unwrap().memory_info().unwrap();
    });
}
