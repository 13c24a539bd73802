//! [`Core`]: the state of a simulated host behind its lock, and how a call is made on it.

use std::sync::Arc;

use super::host_function::Ended;
use super::op::Position;
use super::printed::Printer;
use super::state::State;
use super::{Call, SimConfig};
use cuda_rt_checker::Watch;
use cuda_rt_driver::call_lock::{self, CallLock, LockError};
use cuda_rt_driver::{DriverError, DriverResult};

/// The state shared by the drivers of one host and their [`Simulator`] handles.
pub(super) struct Core {
    pub(super) config: Arc<SimConfig>,
    pub(super) state: CallLock<State>,
    pub(super) watch: Arc<Watch>,
    /// Wakes the threads that wait for a host function.
    pub(super) ended: Ended,
    /// Who writes what kernels have printed.
    pub(super) printer: Printer,
}

impl Core {
    /// Runs `body` on the state, under its lock. What kernels print inside is written outside of
    /// all locks.
    pub(super) fn locked<R>(&self, body: impl FnOnce(&mut State) -> R) -> Result<R, LockError> {
        let mut printed_by = None;
        let entered = self.state.enter(|state| {
            let output = body(state);
            state.printed.push_str(&device_std::print::take());
            if !state.printed.is_empty() {
                printed_by = state.host_functions.core();
            }
            output
        });
        if let Some(core) = printed_by {
            call_lock::outside(move || core.write_printed());
        }
        entered
    }

    /// Makes a call. A panic anywhere inside loses all devices of the host.
    pub(super) fn enter<R>(
        &self,
        call: Call,
        body: impl FnOnce(&mut State) -> DriverResult<R>,
    ) -> DriverResult<R> {
        self.enter_by(call, State::enter, body)
    }

    /// Makes a call that begins with `begin`.
    pub(super) fn enter_by<R>(
        &self,
        call: Call,
        begin: impl FnOnce(&mut State, Call) -> DriverResult<()>,
        body: impl FnOnce(&mut State) -> DriverResult<R>,
    ) -> DriverResult<R> {
        // Before the lock: the thread that is inside may wait for the host function.
        cuda_rt_driver::host_function::check(call.name())?;
        let mut running = false;
        let made = self.locked(|state| {
            let made = begin(state, call).and_then(|()| body(state));
            running = state.host_functions.any_runs();
            made
        });
        if running {
            self.settle();
        }
        made.unwrap_or_else(|error| Err(self.refused(call, error)))
    }

    /// Makes a call that waits until a position is done; `find` finds it and its modelled time.
    pub(super) fn wait(
        &self,
        call: Call,
        find: impl FnOnce(&mut State) -> DriverResult<Option<(Position, u64)>>,
    ) -> DriverResult<()> {
        let Some((position, end_ns)) = self.enter(call, find)? else {
            return Ok(());
        };
        loop {
            let ran = self
                .locked(|state| state.synchronize(call, position, end_ns))
                .unwrap_or_else(|error| Err(self.refused(call, error)));
            if ran? {
                return Ok(());
            }
            if !self.wait_for_host_function() && self.has_lost_a_host_function() {
                return Err(self.refused(call, LockError::Forked));
            }
        }
    }

    #[cold]
    pub(super) fn refused(&self, call: Call, error: LockError) -> DriverError {
        let device = format!("the simulated device (seed {})", self.config.seed);
        error.of_call(call.name(), &device)
    }

    /// Tells the state a fact. Does nothing on a host whose devices a panic has lost. The runtime
    /// tells nothing inside a host function, for the reason of [`enter`](Self::enter).
    pub(super) fn tell(&self, body: impl FnOnce(&mut State)) {
        let _ = self.state.enter(body);
    }

    /// Reads or changes the state outside of any call. If a panic has lost the host's devices,
    /// returns the default value.
    ///
    /// # Panics
    /// If the calling thread is inside a simulated kernel; the panic then loses the device.
    pub(super) fn look<R: Default>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        match self.locked(body) {
            Ok(seen) => seen,
            // A panic hook that looks at the state must not panic again.
            Err(LockError::Reentered) if !std::thread::panicking() => {
                panic!("a simulated device cannot be looked at from inside a simulated kernel")
            }
            Err(LockError::Reentered | LockError::Panicked(_) | LockError::Forked) => R::default(),
        }
    }
}
