//! [`Watch`]: the checker behind a lock, and its reaction to a race.

use std::sync::{Arc, OnceLock};

use super::Check;
use crate::monitor::Monitor;
use cuda_rt_driver::Race;
use cuda_rt_driver::call_lock::CallLock;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// The checker of the devices of one host, and its reaction to a race.
#[derive(Debug)]
pub struct Watch {
    pub(super) check: Check,
    monitor: CallLock<Monitor>,
    /// The first race, if races are denied.
    pub(super) denied: OnceLock<DriverError>,
}

impl Watch {
    /// A checker that has seen nothing yet.
    pub fn new(check: Check, seed: Option<u64>) -> Arc<Self> {
        let (monitor, denied) = (CallLock::new(Monitor::new(seed)), OnceLock::new());
        Arc::new(Self {
            check,
            monitor,
            denied,
        })
    }

    /// The races found so far.
    pub fn races(&self) -> Vec<Race> {
        self.monitor.enter(|monitor| monitor.races()).unwrap_or_default()
    }

    /// Number of byte ranges and number of actors that the checker remembers.
    pub fn footprint(&self) -> (usize, usize) {
        self.monitor
            .enter(|monitor| monitor.footprint())
            .unwrap_or_default()
    }

    /// Runs `body` with the monitor. A panic inside is a sticky error, for this call and every
    /// later one.
    #[inline]
    pub(super) fn enter<R>(&self, body: impl FnOnce(&mut Monitor) -> DriverResult<R>) -> DriverResult<R> {
        let told = self.monitor.enter(body);
        told.unwrap_or_else(|error| Err(error.of_call("cuda_rt_checker", "the checker")))
    }

    pub(super) fn is_off(&self) -> bool {
        self.check == Check::Off
    }

    /// Refuses a call after a race was denied. A call from inside a host function is refused here
    /// too, before it waits for the monitor: the thread that is inside may wait for the function.
    pub(super) fn check_denied(&self) -> DriverResult<()> {
        host_function::check("cuda_rt_checker")?;
        self.denied.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Tells the monitor about a call that was made. A race found here is denied to the next call,
    /// because this call has been made.
    pub(super) fn tell(&self, monitor: &mut Monitor, tell: impl FnOnce(&mut Monitor)) {
        let before = monitor.races_found();
        tell(monitor);
        if monitor.races_found() != before && self.check == Check::Deny {
            self.deny(monitor);
        }
    }

    #[cold]
    pub(super) fn deny(&self, monitor: &Monitor) {
        let races = monitor.races();
        if let Some(race) = races.last() {
            eprintln!("{race}");
            let error =
                DriverError::with_detail("cuda_rt_checker", ErrorCode::ILLEGAL_STATE, race.to_string());
            let _ = self.denied.set(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_checker_fails_every_later_call() {
        let watch = Watch::new(Check::Record, None);
        let told = watch.enter(|monitor| {
            watch.tell(monitor, |_| panic!("in the middle of an access"));
            Ok(())
        });
        for error in [told.unwrap_err(), watch.enter(|_| Ok(())).unwrap_err()] {
            assert!(error.is_sticky(), "{error}");
            assert!(error.detail().contains("in the middle of an access"), "{error}");
        }
        assert!(watch.races().is_empty());
    }
}
