//! [`Foreign`]: memory of another library, which a buffer owns until its last use is over.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::core::DeviceCore;
use crate::order::completion::{Completion, Done};
use crate::order::fence::Fence;
use cuda_rt_driver::{CallSite, DeviceAddress, DriverResult, Hint, Tools};

/// The way to give foreign memory back to its owner and to report that to a checker.
pub(crate) struct Foreign {
    address: DeviceAddress,
    bytes: usize,
    tools: Arc<dyn Tools>,
    completion: Arc<Completion>,
    passed: CallSite,
    release: Release,
}

/// The closure of the memory's owner. If the closure cannot run, it is leaked, not dropped:
/// dropping its captures could free memory that the GPU still uses.
///
/// The lock is never contended: it makes the closure's owner `Sync`.
struct Release(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Release {
    fn take(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        std::mem::forget(self.take());
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({:#x}, {} bytes)", self.address.0, self.bytes)
    }
}

impl Foreign {
    /// Foreign memory that `release` gives back. Tells a checker that the memory arrives here.
    pub(crate) fn new(
        core: &DeviceCore,
        address: DeviceAddress,
        bytes: usize,
        passed: CallSite,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        let foreign = Self {
            address,
            bytes,
            tools: Arc::clone(core.tools()),
            completion: Arc::clone(core.completion()),
            passed,
            release: Release(Mutex::new(Some(Box::new(release)))),
        };
        foreign.tell(false);
        foreign
    }

    fn tell(&self, ends: bool) {
        if self.bytes > 0 {
            self.tools.hint(Hint::ForeignMemory {
                address: self.address,
                bytes: self.bytes,
                passed: self.passed,
                ends,
            });
        }
    }

    fn give_back(mut self) {
        self.tell(true);
        if let Some(release) = self.release.take() {
            release();
        }
    }

    /// Gives the memory back on the device's thread for closures, once a query or wait saw that
    /// `fence` is over. If that is never seen, the memory is leaked. Does not block.
    pub(super) fn give_back_behind(self, mut fence: Fence) {
        let completion = Arc::clone(&self.completion);
        let over = fence.is_done();
        // A failed wait is not a finished wait (docs/soundness.md, obligation 4).
        let run = move |outcome: DriverResult<()>| {
            if outcome.is_ok() {
                self.give_back();
            }
        };
        let Ok(done) = Done::run(&completion, run) else {
            return;
        };
        if over {
            done.now();
        } else {
            // If the fence cannot be watched, `done` and the closure in it are leaked. A lost fence
            // has no event to watch.
            let _ = fence.watch(done);
        }
    }
}
