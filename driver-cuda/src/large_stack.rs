//! Calls of NVIDIA's compilers on a large stack of their own.
//!
//! The compilers (NVRTC, and the driver's compiler of PTX) use more stack the deeper a source is
//! nested. They have large frames, and are built without probes: a function may write behind a
//! guard page without touching it. NVRTC 13.0 has frames of 82 KiB, and a thread of Rust has one
//! guard page of 4 KiB.
//!
//! Counterexample: safe code starts a thread with a stack of 88 KiB, and compiles there. A frame
//! reaches over the guard page, and the compiler overwrites the stack of another thread.
//!
//! Therefore these calls run on a thread that has a stack of [`STACK_BYTES`], and below it a guard
//! of [`GUARD_BYTES`]. A source that overflows even this stack ends the process, as any overflow of
//! a stack does. Windows has no such guard and needs none: its compilers probe every page.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::loader;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// The stack of the calls. Only pages that a call touches take memory.
const STACK_BYTES: usize = 256 << 20;
/// The memory below the stack that nothing can access. A frame is smaller by far.
#[cfg(target_os = "linux")]
const GUARD_BYTES: usize = 64 << 20;

/// Runs `body` on a thread with a large stack, and waits for its end. For calls that compile or
/// load code; starting the thread takes some ten microseconds. The new thread has no current
/// context. If `body` unwinds, this function does.
///
/// # Errors
/// No thread can be started; the process is a child of `fork`, or the call comes from inside a host
/// function. `body` has then not run. `call` names the call in the error.
///
/// ```
/// fn depth(levels: u64) -> u64 {
///     if levels == 0 { 0 } else { 1 + std::hint::black_box(depth(levels - 1)) }
/// }
/// // Too deep for the stack of a usual thread.
/// let depth = cuda_rt_driver_cuda::on_large_stack("depth", || depth(500_000))?;
/// assert_eq!(depth, 500_000);
/// # Ok::<(), cuda_rt_driver::DriverError>(())
/// ```
pub fn on_large_stack<O: Send>(call: &'static str, body: impl FnOnce() -> O + Send) -> DriverResult<O> {
    // Both ask about this thread.
    host_function::check(call)?;
    loader::check(call)?;
    let mut body = Some(body);
    let mut output = None;
    let mut run = || {
        output = body.take().map(|body| catch_unwind(AssertUnwindSafe(body)));
    };
    on_thread(&mut run).map_err(|why| {
        let detail = format!("no thread with a stack of {} MiB: {why}", STACK_BYTES >> 20);
        DriverError::with_detail(call, ErrorCode::OPERATING_SYSTEM, detail)
    })?;
    match output.expect("the thread has ended") {
        Ok(output) => Ok(output),
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs `run`, which does not unwind, on a thread of its own, and waits for the thread's end.
#[cfg(target_os = "linux")]
fn on_thread(run: &mut (dyn FnMut() + Send)) -> std::io::Result<()> {
    use std::ffi::c_void;
    use std::io::Error;
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Only the call of `pthread_create` below names it.
    extern "C" fn begin(run: *mut c_void) -> *mut c_void {
        // SAFETY: `pthread_create` passes the address of the closure. It lives and nothing else
        // uses it until this thread has ended, because `on_thread` joins the thread.
        let run = unsafe { &mut *run.cast::<&mut (dyn FnMut() + Send)>() };
        run();
        ptr::null_mut()
    }

    let check = |status| match status {
        0 => Ok(()),
        status => Err(Error::from_raw_os_error(status)),
    };
    let mut run = run;
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory for attributes.
    check(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
    // Some versions of the C library count the guard as part of the stack.
    let stack_bytes = STACK_BYTES + GUARD_BYTES;
    // SAFETY: the attributes were initialised above.
    let sized = check(unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack_bytes) });
    // SAFETY: as above.
    let guarded = check(unsafe { libc::pthread_attr_setguardsize(attributes.as_mut_ptr(), GUARD_BYTES) });
    let mut thread = MaybeUninit::uninit();
    let started = sized.and(guarded).and_then(|()| {
        // SAFETY: the attributes were initialised above. The new thread gets the address of `run`,
        // which this function leaves alone until the thread has ended.
        check(unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                attributes.as_ptr(),
                begin,
                ptr::from_mut(&mut run).cast(),
            )
        })
    });
    // SAFETY: the attributes were initialised above, and are not used again.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    started?;
    // SAFETY: `pthread_create` succeeded, so it wrote the thread.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: the thread is joined once, and by nobody else.
    let joined = unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    if joined != 0 {
        // The thread may still use `run`, so this function can't return.
        std::process::abort();
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn on_thread(run: &mut (dyn FnMut() + Send)) -> std::io::Result<()> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, run)?;
        thread.join().expect("`run` does not unwind");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest frame that was seen in NVIDIA's compilers, many times over.
    const FRAME: usize = 16 << 20;

    #[test]
    fn a_panic_goes_on_in_the_caller_and_a_value_comes_back() {
        let caught = catch_unwind(|| on_large_stack("test", || panic!("of the test")));
        let payload = caught.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"of the test"));
        let mut local = [1, 2];
        let sum = on_large_stack("test", || {
            local[0] = 3;
            local.iter().sum::<i32>()
        });
        assert_eq!((sum, local), (Ok(5), [3, 2]));
    }

    /// The mapping below the stack is one that nothing can access, and no frame reaches over it.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_guard_is_larger_than_any_frame() {
        let (here, maps) = on_large_stack("test", || {
            let here = 0_u8;
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            (std::ptr::from_ref(&here).addr(), maps)
        })
        .unwrap();
        let mut below = None;
        for line in maps.lines() {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap());
            if (from..to).contains(&here) {
                assert!(to - from >= STACK_BYTES, "the stack: {line}");
                let (guard, end, access) = below.unwrap();
                assert_eq!((end, access), (from, "---p"), "{maps}");
                assert!(end - guard >= FRAME, "{} bytes of guard", end - guard);
                return;
            }
            below = Some((from, to, &rest[..4]));
        }
        panic!("no mapping holds {here:x}: {maps}");
    }

    #[test]
    fn a_small_thread_makes_a_call_that_needs_much_stack() {
        #[inline(never)]
        fn deep(levels: usize) -> usize {
            let frame = std::hint::black_box([levels; 512]);
            if levels == 0 {
                0
            } else {
                frame[levels % 512] + deep(levels - 1) - levels + 1
            }
        }
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let thread = small.spawn(|| on_large_stack("test", || deep(20_000))).unwrap();
        assert_eq!(thread.join().unwrap(), Ok(20_000));
    }
}
