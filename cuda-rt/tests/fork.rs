//! A process that forks: threads and memory stay in the parent. A child that would wait for the
//! threads gets an error. A signal ends a child that touches memory of its parent.
//!
//! The test has its own binary, because a child has only the thread that forked.

use std::fs::File;
use std::future::{Future, IntoFuture};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::driver::ErrorCode;
use cuda_rt::pipeline::Pipeline;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Error, Grid1, Handoff, PinnedBuffer, PinnedError, done_scope};
use device_std::prelude::*;

cuda_rt::streams! {
    Compute;
    Download;
}

// The simulated device reads no PTX.
device_std::kernel_module!("conformance/kernels.ptx");

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn kill(process: i32, signal: i32) -> i32;
    fn pause() -> i32;
    fn dup2(file: i32, becomes: i32) -> i32;
    fn _exit(status: i32) -> !;
}

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// Runs `body` in a child process, and returns its status.
fn status_of_a_child(body: impl FnOnce()) -> i32 {
    // SAFETY: the call has no arguments. The child runs on a copy of this thread alone, and never
    // returns from this function. After a fork the allocator works (glibc), and no other thread of
    // this test holds a lock that the child takes.
    let child = unsafe { fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
        unsafe { alarm(100) };
        let done = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: the call ends the process at once, and runs no destructor.
        unsafe { _exit(i32::from(!done)) };
    }
    status_of(child)
}

/// The status of a child, which has ended.
fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `child` is a child of this process, and `status` has room for its status.
    let waited = unsafe { waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}

/// The signal that has ended a child, or 0: the low bits of its status.
fn signal_that_ends(child: i32) -> i32 {
    status_of(child) & 0x7f
}

/// Runs `body` in a child process. Returns whether the child ended without a panic.
fn in_a_child(body: impl FnOnce()) -> bool {
    status_of_a_child(body) == 0
}

/// Runs `body` in a child process, which a signal ends.
#[track_caller]
fn in_a_child_that_dies(signal: i32, body: impl FnOnce()) {
    assert_eq!(status_of_a_child(body) & 0x7f, signal);
}

/// Runs `body` while a child process holds whatever a fork gives to it.
fn beside_a_child<T>(body: impl FnOnce() -> T) -> T {
    const SIGKILL: i32 = 9;
    // SAFETY: as in `in_a_child`: the child never returns from this function.
    let child = unsafe { fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: the call takes no pointer. The signal ends a child whose parent has died.
        unsafe { alarm(100) };
        loop {
            // SAFETY: the call has no arguments.
            unsafe { pause() };
        }
    }
    let done = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: `child` is a child of this process that was not waited for.
    unsafe { kill(child, SIGKILL) };
    // SAFETY: as above; a null pointer asks for no status.
    unsafe { waitpid(child, std::ptr::null_mut(), 0) };
    done.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Pinned memory stays with its parent. A child that touches it dies: behind the references that it
/// has from its parent, no value may change.
fn pinned_memory_stays_in_the_parent(gpu: &Device) {
    let stream = gpu.stream::<Download>().unwrap();
    let mut host = gpu.pinned_from(&[7_u32; 4096]).unwrap();
    for at in [0, 4095] {
        in_a_child_that_dies(SIGSEGV, || assert_eq!(host[at], 0));
    }
    in_a_child_that_dies(SIGSEGV, || host.fill(9));
    assert_eq!(*host, [7; 4096]);
    // Blocks that the parent frees and takes again.
    drop(host);
    gpu.trim_pinned(0);
    let mut host = gpu.pinned_from(&[7_u32; 4096]).unwrap();
    in_a_child_that_dies(SIGSEGV, || host.fill(9));
    let freed = gpu.pinned::<u32>(64).unwrap();
    drop(freed);
    if gpu.is_simulated() {
        // A child's own memory is none of its parent's.
        assert!(in_a_child(|| {
            let mut own = gpu.pinned_from(&[5_u32; 64]).unwrap();
            own.fill(6);
            assert_eq!(*own, [6; 64]);
            in_a_child_that_dies(SIGSEGV, || own.fill(7));
        }));
    }

    // The parent writes a page first, and then the GPU. On a GPU this page is then the GPU's.
    let mut data = stream.alloc_zeroed::<u32>(4096).unwrap();
    stream.fill(&mut data, 8).unwrap();
    let seen = beside_a_child(move || {
        host.fill(1);
        let mut host = stream.adopt(host).unwrap();
        stream.copy_to_host(&data, &mut host).unwrap();
        stream.release(host).unwrap().synchronize().unwrap()
    });
    assert_eq!(*seen, [8; 4096]);
}

/// Managed memory stays with its parent. A child gets an error, or is ended if it was forked while
/// its parent used the memory.
fn managed_memory_stays_in_the_parent(gpu: &Device) {
    let mut managed = match gpu.managed_from(&[7_u32; 16]) {
        Ok(managed) => managed,
        Err(error) => {
            eprintln!("SKIPPED: no managed memory: {error}");
            return;
        }
    };
    assert!(in_a_child(|| {
        for refused in [managed.to_vec().map(drop), managed.host_mut(|_| ())] {
            let error = refused.unwrap_err();
            let code = error.driver().unwrap().code();
            assert_eq!(code, ErrorCode::NOT_INITIALIZED, "{error}");
            assert!(error.to_string().contains("this process was forked"), "{error}");
        }
    }));
    let used = managed.host(|numbers| in_a_child_that_dies(SIGSEGV, || assert_eq!(numbers[15], 7)));
    used.unwrap();
    let used = managed.host_mut(|numbers| in_a_child_that_dies(SIGSEGV, || numbers.fill(9)));
    used.unwrap();
    assert_eq!(managed.to_vec().unwrap(), [7; 16]);
    // The memory of freed blocks is the child's own affair.
    drop(managed);
    gpu.trim_managed();
    let managed = gpu.managed_from(&[7_u32; 16]).unwrap();
    let used = managed.host(|numbers| in_a_child_that_dies(SIGSEGV, || assert_eq!(numbers[0], 7)));
    used.unwrap();
}

/// Write-combined memory stays with its parent too, and a child that writes it gets an error.
fn write_combined_memory_stays_in_the_parent(gpu: &Device) {
    let mut frame = gpu.write_combined_from(&[7_u32; 16]).unwrap();
    assert!(in_a_child(|| {
        for refused in [frame.fill(.., 1), frame.copy_from_slice(..1, &[1])] {
            let error = refused.unwrap_err();
            let code = error.driver().unwrap().code();
            assert_eq!(code, ErrorCode::NOT_INITIALIZED, "{error}");
            assert!(error.to_string().contains("this process was forked"), "{error}");
        }
    }));
    let mut child = None;
    let written = frame.write_with(8.., |at| {
        if at == 8 {
            // SAFETY: as in `status_of_a_child`: the child ends in this call.
            child = Some(unsafe { fork() });
            // SAFETY: the call takes no pointer.
            unsafe { alarm(100) };
        }
        8
    });
    match child {
        // SAFETY: the call ends the process at once, and runs no destructor.
        Some(0) => unsafe { _exit(0) },
        Some(child) => assert_eq!(signal_that_ends(child), SIGSEGV),
        None => panic!("the closure ran"),
    }
    // SAFETY: the call takes no pointer. This process needs no alarm.
    unsafe { alarm(0) };
    written.unwrap();
}

/// Blocks of the parent, which a child gives back, do not become memory of the child.
fn a_child_gives_back_what_is_its_parents(gpu: &Device) {
    let inherited = (
        gpu.pinned_from(&[7_u32; 4]).unwrap(),
        gpu.managed_from(&[7_u32; 4]).unwrap(),
        gpu.write_combined_from(&[7_u32; 4]).unwrap(),
    );
    assert!(in_a_child(|| {
        drop(inherited);
        let mut own = gpu.pinned_from(&[5_u32; 4]).unwrap();
        own.fill(6);
        gpu.trim_pinned(0);
        gpu.trim_managed();
        gpu.trim_write_combined();
    }));
}

/// A block of the parent does not come to a device that the child opened, by way of which the child
/// would get it as its own.
fn a_child_does_not_move_its_parents_memory_to_its_own_device(gpu: &Device) {
    let inherited = gpu.pinned_from(&[7_u32; 4]).unwrap();
    assert!(in_a_child(|| {
        let done = Device::simulated(SimConfig::new(), |mine| {
            let refused = inherited.for_device(&mine).map(drop).unwrap_err();
            assert!(
                matches!(refused.error, Error::Pinned(PinnedError::OtherProcess)),
                "{}",
                refused.error
            );
            drop(refused);
            let mut own = mine.pinned::<u32>(4).unwrap();
            own.fill(6);
            drop(own.for_device(&mine).unwrap());
            assert_eq!(*mine.pinned::<u32>(4).unwrap(), [0; 4]);
        });
        done.unwrap();
    }));
}

/// A child that is forked inside of a host function, or of a closure, on the thread that calls it.
/// It ends where the closure returns: its parent's thread would go on in the child.
fn a_child_does_not_return_from_a_closure(gpu: &Device) {
    let (told, children) = mpsc::channel();
    let forks = move || {
        // SAFETY: as in `status_of_a_child`: the child ends when the closure returns.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
            unsafe { alarm(100) };
            return true;
        }
        told.send(child).unwrap();
        false
    };
    let ended = || {
        let child = children.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(signal_that_ends(child), SIGABRT);
    };

    let download = gpu.stream::<Download>().unwrap();
    let mut host = download.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
    let function = forks.clone();
    let enqueued = download.host_fn(&mut host, move |host: &mut [u32]| {
        host.fill(1);
        if !function() {
            host.fill(2);
        }
    });
    enqueued.unwrap();
    assert_eq!(download.release(host).unwrap().synchronize().unwrap()[63], 2);
    ended();

    downloading(gpu, 1).on_done(move |_| _ = forks()).unwrap();
    ended();
    // The thread goes on with closures in the parent.
    assert_eq!(heard(downloading(gpu, 50)), 49);
}

/// Forks once, in the second call of the closure with this number, and tells the child.
struct ForksIn {
    closure: usize,
    parent: u32,
    calls: AtomicUsize,
    told: mpsc::Sender<i32>,
}

impl ForksIn {
    /// The closure with this number is called.
    fn called(&self, closure: usize) {
        if std::process::id() != self.parent {
            // A child went on: no closure of a pipeline is called in it.
            // SAFETY: the call ends the process at once, and runs no destructor.
            unsafe { _exit(3) };
        }
        if closure != self.closure || self.calls.fetch_add(1, Ordering::SeqCst) != 1 {
            return;
        }
        // SAFETY: as in `status_of_a_child`: the child ends when the closure returns.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
            unsafe { alarm(100) };
            return;
        }
        self.told.send(child).unwrap();
    }
}

/// A child that is forked inside of a closure of a pipeline. It ends where the closure returns: in
/// the child, the pipeline has no other threads, and the closures borrow from a thread that it may
/// lack.
fn a_child_does_not_return_from_a_closure_of_a_pipeline() {
    const LEN: usize = 16;
    let closures = 9;
    for closure in 0..closures {
        let (told, children) = mpsc::channel();
        let forks = ForksIn {
            closure,
            parent: std::process::id(),
            calls: AtomicUsize::new(0),
            told,
        };
        let at = |closure| forks.called(closure);
        let ran = Device::simulated(SimConfig::new(), |gpu| {
            let items = (0..4_u32).inspect(|_| at(0));
            let fill = |item: &mut u32, data: &mut [u32]| {
                data.fill(*item);
                // Behind the use of memory that the child lacks.
                at(1);
                Ok(data.len())
            };
            let one = Pipeline::new(&gpu, 2)
                .source(LEN, items, fill)
                .upload::<Compute<_>>()
                .download::<Download<_>>()
                .sink_ordered(
                    1,
                    |item, _data| {
                        at(2);
                        Ok(item)
                    },
                    |_item| {
                        at(3);
                        Ok(())
                    },
                );
            one.run().unwrap();
            let next_item = std::sync::Mutex::new(0..4_u32);
            let next = || {
                at(4);
                Ok(next_item.lock().unwrap().next())
            };
            let two = Pipeline::new(&gpu, 2)
                .reader_ordered(1, LEN, next, |item: &mut u32, data: &mut [u32]| {
                    data.fill(*item);
                    // Behind the use of memory that the child lacks.
                    at(5);
                    Ok(data.len())
                })
                .upload::<Compute<_>>()
                .download::<Download<_>>()
                .sink(|_item, _data| {
                    at(6);
                    Ok(())
                })
                .watch(|_worked| at(7));
            two.run().unwrap();
            let three = Pipeline::new(&gpu, 2)
                .generate::<Compute<_>, u32, _>(LEN, 0..4_u32, |stream, item, data| {
                    at(8);
                    stream.fill(data, *item)?;
                    Ok(data.len())
                })
                .download::<Download<_>>()
                .sink(|_item, _data| Ok(()));
            three.run().unwrap();
        });
        ran.unwrap();
        let child = children.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(signal_that_ends(child), SIGABRT, "closure {closure}");
    }
}

/// A child that only leaves the device of its parent ends as usual.
fn a_child_leaves_the_device_of_its_parent() {
    let config = SimConfig::new().order(Order::Lazy);
    let status = Device::simulated(config, |gpu| {
        drop(gpu.pinned_from(&[7_u32; 4]).unwrap());
        drop(gpu.managed_from(&[7_u32; 4]).unwrap());
        drop(gpu.write_combined_from(&[7_u32; 4]).unwrap());
        // SAFETY: as in `status_of_a_child`: the child does not leave this function.
        unsafe { fork() }
    });
    match status.unwrap() {
        // SAFETY: the call ends the process at once, and runs no destructor.
        0 => unsafe { _exit(0) },
        child => assert_eq!(status_of(child), 0),
    }
}

/// A child takes no closures for its parent's scope. It cannot leave the scope either: closures of
/// the parent may have changed what they borrow half-way.
fn a_child_does_not_leave_a_scope_of_its_parent(gpu: &Device) {
    let (open, gate) = mpsc::channel::<()>();
    let (begins, began) = mpsc::channel();
    let child = done_scope(|scope| {
        let held = move |_| {
            begins.send(()).unwrap();
            // Ends when the parent drops the sender.
            let _ = gate.recv();
        };
        downloading(gpu, 50).on_done_in(scope, held).unwrap();
        began.recv().unwrap();
        assert!(in_a_child(|| {
            let refused = downloading(gpu, 50).on_done_in(scope, |_| ());
            is_of_a_fork(&refused.unwrap_err());
        }));
        // SAFETY: as in `status_of_a_child`: the child does not leave this function.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
            unsafe { alarm(100) };
            // Leaves the scope.
            return child;
        }
        assert_eq!(signal_that_ends(child), SIGABRT);
        // A child that cannot say why it ends.
        // SAFETY: as above.
        let mute = unsafe { fork() };
        if mute == 0 {
            // SAFETY: the call takes no pointer.
            unsafe { alarm(100) };
            let full = File::create("/dev/full").unwrap();
            // SAFETY: the call takes no pointer. Standard error becomes a file that is full.
            assert_eq!(unsafe { dup2(full.as_raw_fd(), 2) }, 2);
            return mute;
        }
        assert_eq!(signal_that_ends(mute), SIGABRT);
        drop(open);
        child
    });
    if child == 0 {
        // SAFETY: the call ends the process at once, and runs no destructor.
        unsafe { _exit(0) };
    }
}

fn downloading(gpu: &Device, fills: u32) -> Handoff<PinnedBuffer<u32>> {
    let download = gpu.stream::<Download>().unwrap();
    let mut data = download.alloc_zeroed::<u32>(64).unwrap();
    for value in 0..fills {
        download.fill(&mut data, value).unwrap();
    }
    let mut host = download.adopt(gpu.pinned(64).unwrap()).unwrap();
    download.copy_to_host(&data, &mut host).unwrap();
    download.release(host).unwrap()
}

/// Polls in a loop, because a child has no executor. Returns `None` if the future stays pending.
fn wait<T>(future: impl IntoFuture<Output = T>) -> Option<T> {
    let mut future = pin!(future.into_future());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// The first value of a download, received from a closure.
fn heard(download: Handoff<PinnedBuffer<u32>>) -> u32 {
    let (sender, ran) = mpsc::channel();
    let told = download.on_done(move |host| sender.send(host.unwrap()[0]).unwrap());
    told.unwrap();
    ran.recv_timeout(Duration::from_secs(60))
        .expect("the closure runs")
}

#[track_caller]
fn is_of_a_fork(error: &Error) {
    assert!(matches!(error, Error::HostThread { .. }), "{error:?}");
    assert!(error.to_string().contains("this process was forked"), "{error}");
}

static RUNNING: AtomicBool = AtomicBool::new(false);
static GO_ON: AtomicBool = AtomicBool::new(false);

/// Runs until it is told to stop, and keeps the simulated device locked meanwhile.
#[kernel]
fn hold_the_device(i: Index1, mut out: PerThread<u32>) {
    if let Some(out) = out.get_mut(i) {
        RUNNING.store(true, Ordering::SeqCst);
        while !GO_ON.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        *out = 7;
    }
}

/// One test only: a child forked during two tests would have half of the other test's state.
#[test]
fn a_child_has_neither_its_parents_threads_nor_its_pinned_memory() {
    let open = || {
        let config = SimConfig::new().order(Order::Lazy).most_pending(usize::MAX);
        Device::open_or_simulate_with(config).unwrap()
    };

    // A child that opens a device gets its own threads.
    assert!(in_a_child(|| {
        let gpu = open();
        assert_eq!(heard(downloading(&gpu, 50)), 49);
        assert_eq!(wait(downloading(&gpu, 50)).unwrap().unwrap()[0], 49);
    }));

    let gpu = open();
    pinned_memory_stays_in_the_parent(&gpu);
    managed_memory_stays_in_the_parent(&gpu);
    write_combined_memory_stays_in_the_parent(&gpu);
    if !gpu.is_simulated() {
        eprintln!("SKIPPED ON CUDA: a context is of no use in a child");
        return;
    }
    // This starts the threads.
    assert_eq!(heard(downloading(&gpu, 50)), 49);
    assert_eq!(wait(downloading(&gpu, 50)).unwrap().unwrap()[0], 49);
    assert!(in_a_child(|| {
        is_of_a_fork(
            &wait(downloading(&gpu, 50))
                .expect("it stays pending")
                .unwrap_err(),
        );
        is_of_a_fork(&downloading(&gpu, 50).on_done(|_| ()).unwrap_err());
        // A wait of the child's own needs no thread.
        assert_eq!(downloading(&gpu, 50).synchronize().unwrap()[63], 49);
    }));

    a_child_does_not_leave_a_scope_of_its_parent(&gpu);
    a_child_leaves_the_device_of_its_parent();
    a_child_gives_back_what_is_its_parents(&gpu);
    a_child_does_not_move_its_parents_memory_to_its_own_device(&gpu);
    a_child_does_not_return_from_a_closure(&gpu);
    a_child_does_not_return_from_a_closure_of_a_pipeline();

    // A wait that began before the fork. The waiting thread stays in the parent, inside a kernel,
    // with the device locked.
    let compute = gpu.stream::<Compute>().unwrap();
    let mut out = compute.alloc_zeroed::<u32>(1).unwrap();
    hold_the_device(&compute, Grid1::covering(1), &mut out).unwrap();
    let mut future = compute.release(out).unwrap().into_future();
    // Polls once, which runs the operations before the kernel.
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    while !RUNNING.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    let done = in_a_child(|| {
        let error = gpu.memory_info().unwrap_err();
        assert_eq!(
            error.driver().unwrap().code(),
            ErrorCode::NOT_INITIALIZED,
            "{error}"
        );
        assert!(error.to_string().contains("this process was forked"), "{error}");
        is_of_a_fork(&wait(&mut future).expect("it stays pending").unwrap_err());
    });
    // Stop the kernel before an assertion can fail, or it runs for ever.
    GO_ON.store(true, Ordering::SeqCst);
    wait(future).expect("it stays pending").unwrap();
    assert!(done);
}
