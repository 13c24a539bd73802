//! [`Printer`]: writes what simulated kernels have printed.
//!
//! A kernel runs under the lock of the state, and its text waits in the state. The call that ran
//! the kernel writes the text once its thread is outside of all locks: another thread may have
//! locked standard output, and may wait for the device.
//!
//! One thread at a time writes, so that the text appears in the order in which kernels printed it.
//! A second thread leaves its text to the first one, and does not wait.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Core;

/// Who writes the text of a host's kernels.
#[derive(Debug, Default)]
pub(super) struct Printer {
    /// Whether a thread writes.
    writes: AtomicBool,
}

impl Core {
    /// Writes the text that waits, if no other thread does. The thread is outside of all locks.
    pub(super) fn write_printed(&self) {
        let waiting = || {
            let waiting = self.state.enter(|state| mem::take(&mut state.printed));
            waiting.ok().filter(|text| !text.is_empty())
        };
        while !self.printer.writes.swap(true, Ordering::Acquire) {
            while let Some(text) = waiting() {
                device_std::print::write(&text);
            }
            self.printer.writes.store(false, Ordering::Release);
            // Text of a thread that saw `writes` set, after the last text was taken.
            if !matches!(self.state.enter(|state| state.printed.is_empty()), Ok(false)) {
                return;
            }
        }
    }
}
