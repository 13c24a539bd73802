//! [`Unless`]: a guard that acts on failure, and that success takes back. [`Leaked`]: the guard
//! that leaks its value on failure.
//!
//! A driver must not unwind: [`Driver`](cuda_rt_driver::Driver) forbids it. The typed layer is
//! sound even if a driver does. Before a call that orders work, the guard assumes the failure of
//! the call. After the call has returned, the caller takes the value back:
//!
//! ```text
//!   let block = Leaked::new(block);            // unwinding from here on leaks the block
//!   let lease = events.record(at, false)?;        // and so does returning early
//!   pool.give_back(block.take_back(), lease.into());
//! ```
//!
//! Counterexample: a destructor takes its block out of `self`, records an event, and gives the
//! block to the pool. If the record unwinds, the block is a local variable, and its destructor
//! unmaps it under a pending copy.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use cuda_rt_driver::{DriverError, ErrorCode};

/// A value that is leaked unless it is [taken back](Self::take_back), also if a call in between
/// unwinds. For memory that the GPU may use while no order is recorded.
///
/// It has no destructor, so it is as large as the value, and moves no more than the value does.
#[must_use = "dropping it at once leaks the value"]
pub struct Leaked<T>(ManuallyDrop<T>);

impl<T> Leaked<T> {
    /// Leaks `value` unless it is taken back.
    #[inline(always)]
    pub fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// Takes the value back: there was no failure.
    #[inline(always)]
    pub fn take_back(self) -> T {
        ManuallyDrop::into_inner(self.0)
    }
}

impl<T> Deref for Leaked<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Leaked<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A value, and a function that gets the value unless it is [taken back](Self::take_back). The
/// function also runs if a call in between unwinds.
#[must_use = "dropping it at once is the failure that it stands for"]
pub(crate) struct Unless<T, F: FnOnce(T)>(Option<(T, F)>);

impl<T, F: FnOnce(T)> Unless<T, F> {
    /// Gives `value` to `failed` unless it is taken back.
    #[inline]
    pub(crate) fn new(value: T, failed: F) -> Self {
        Self(Some((value, failed)))
    }

    /// Takes the value back: there was no failure.
    #[inline]
    pub(crate) fn take_back(mut self) -> T {
        let Some((value, _)) = self.0.take() else {
            unreachable!("taken back once: this consumes it")
        };
        value
    }
}

impl<T, F: FnOnce(T)> Deref for Unless<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let Some((value, _)) = &self.0 else {
            unreachable!("there until it is taken back or dropped")
        };
        value
    }
}

impl<T, F: FnOnce(T)> DerefMut for Unless<T, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        let Some((value, _)) = &mut self.0 else {
            unreachable!("there until it is taken back or dropped")
        };
        value
    }
}

impl<T, F: FnOnce(T)> Drop for Unless<T, F> {
    #[inline]
    fn drop(&mut self) {
        if let Some((value, failed)) = self.0.take() {
            failed(value);
        }
    }
}

/// The error of a call that unwound. Whether the driver made the call is unknown.
#[cold]
pub(crate) fn unwound(call: &'static str) -> DriverError {
    DriverError::with_detail(
        call,
        ErrorCode::ILLEGAL_STATE,
        "the driver unwound from this call instead of returning",
    )
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::{Leaked, Unless};

    #[test]
    fn a_value_is_leaked_by_unwinding_and_kept_when_taken_back() {
        let counted = Arc::new(());
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _leaked = Leaked::new(Arc::clone(&counted));
            panic!("in between");
        }));
        assert!(unwound.is_err());
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(Leaked::new(Arc::clone(&counted)).take_back());
        assert_eq!(Arc::strong_count(&counted), 2);
    }

    #[test]
    fn the_failure_function_runs_unless_the_value_is_taken_back() {
        let mut failed = 0;
        drop(Unless::new(&mut failed, |failed| *failed += 1));
        Unless::new(&mut failed, |failed| *failed += 1).take_back();
        assert_eq!(failed, 1);
    }
}
