//! Host functions: functions of the host that a stream runs in the order of its work.
//!
//! CUDA permits no call of its API inside a host function: the call may return an error, or wait
//! for the thread that makes it. Whoever writes a host function runs the user's part by
//! [`inside`]. Every driver asks [`check`] first in each of its calls, so a call that is not
//! permitted is an error, on every backend.

use std::cell::Cell;
use std::ffi::c_void;

use super::{DriverError, DriverResult, ErrorCode};

/// A function and its argument, as [`Streams::launch_host_function`] takes them
/// (`CUhostFn`).
///
/// Plain numbers: copying the value copies no ownership, and the call is `unsafe`.
///
/// [`Streams::launch_host_function`]: super::Streams::launch_host_function
#[derive(Clone, Copy, Debug)]
pub struct HostFunction {
    /// The function.
    pub run: unsafe extern "C" fn(*mut c_void),
    /// The argument: an address whose provenance was exposed.
    pub data: usize,
}

impl HostFunction {
    /// The argument as a pointer.
    pub fn argument(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.data)
    }
}

thread_local! {
    // The cell has no destructor, so it exists as long as its thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Resets the mark when the host function ends, also by a panic.
struct Until(bool);

impl Drop for Until {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Runs the user's part of a host function: until `body` ends, [`check`] refuses the calls of this
/// thread.
pub fn inside<R>(body: impl FnOnce() -> R) -> R {
    let _until = Until(INSIDE.replace(true));
    body()
}

/// Whether this thread is inside a host function.
#[inline]
pub fn is_inside() -> bool {
    INSIDE.get()
}

/// Refuses the driver's `call` if this thread is inside a host function.
#[inline]
pub fn check(call: &'static str) -> DriverResult<()> {
    if is_inside() { Err(refused(call)) } else { Ok(()) }
}

#[cold]
fn refused(call: &'static str) -> DriverError {
    DriverError::with_detail(
        call,
        ErrorCode::NOT_PERMITTED,
        "called from inside a host function (`Stream::host_fn`), where CUDA permits no call",
    )
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn calls_are_refused_inside_and_only_there() {
        assert!(check("cuEventRecord").is_ok());
        let error = inside(|| {
            inside(|| ());
            check("cuEventRecord").unwrap_err()
        });
        assert_eq!(
            (error.call(), error.code()),
            ("cuEventRecord", ErrorCode::NOT_PERMITTED)
        );
        assert!(catch_unwind(|| inside(|| panic!("of the test"))).is_err());
        assert!(check("cuEventRecord").is_ok());
        inside(|| std::thread::scope(|scope| scope.spawn(|| assert!(!is_inside())).join())).unwrap();
    }
}
