//! Host functions: functions of the host that a stream runs in the order of its work.
//!
//! CUDA permits no call of its API inside a host function: the call may return an error, or wait
//! for the thread that makes it. Whoever writes a host function runs the user's part by
//! [`inside`]. Every driver asks [`check`] first in each of its calls, so a call that is not
//! permitted is an error, on every backend.
//!
//! At the end of the process a library may not be torn down while one of its threads is inside a
//! host function. So a driver over such a library has a [`Gate`], which each user's part passes.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

use super::process::without_children;
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
/// thread. `None` if the process ends: `body` was not run then. A child of `fork` does not leave
/// `body` ([`without_children`]).
pub fn inside<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _passed = Passed::enter()?;
    let _until = Until(INSIDE.replace(true));
    Some(without_children(body))
}

/// Whether the process ends, and so refuses the user's parts of host functions.
pub fn process_ends() -> bool {
    Passed::enter().is_none()
}

/// What the end of the process must know of the user's parts of host functions.
#[derive(Debug)]
pub struct Gate {
    /// Called before the user's part, on its thread. `false` if the process ends: the part is not
    /// run then, and `leave` is not called.
    pub enter: fn() -> bool,
    /// Called after the user's part, also if it panics.
    pub leave: fn(),
}

static GATE: OnceLock<Gate> = OnceLock::new();

/// Sets the gate that the user's parts of all host functions pass. The first gate stays.
///
/// # Safety
/// `gate` belongs to the library that calls host functions in this process: its exit handlers wait
/// for every part that has entered, and `enter` returns `false` afterwards.
pub unsafe fn set_gate(gate: Gate) {
    // A second driver over the same library sets the same gate.
    let _ = GATE.set(gate);
}

/// A passed gate. Its drop leaves the gate.
struct Passed(Option<&'static Gate>);

impl Passed {
    fn enter() -> Option<Self> {
        let gate = GATE.get();
        let is_open = gate.is_none_or(|gate| (gate.enter)());
        is_open.then(|| Self(gate))
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            (gate.leave)();
        }
    }
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
        })
        .expect("the gate is open");
        assert_eq!(
            (error.call(), error.code()),
            ("cuEventRecord", ErrorCode::NOT_PERMITTED)
        );
        assert!(catch_unwind(|| inside(|| panic!("of the test"))).is_err());
        assert!(check("cuEventRecord").is_ok());
        let other = inside(|| std::thread::scope(|scope| scope.spawn(is_inside).join()));
        assert!(!other.expect("the gate is open").unwrap());
    }
}
