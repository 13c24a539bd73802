//! The checker behind a lock, and what becomes of a race.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Check;
use crate::check::{Monitor, Race};
use crate::driver::{DriverError, DriverResult, ErrorCode};

/// The checker of the devices of one host, and what it does about a race.
#[derive(Debug)]
pub(in crate::driver) struct Watch {
    pub(super) check: Check,
    pub(super) monitor: Mutex<Monitor>,
    /// The first race, where races are denied.
    pub(super) denied: OnceLock<DriverError>,
}

impl Watch {
    pub(in crate::driver) fn new(check: Check, seed: Option<u64>) -> Arc<Self> {
        let (monitor, denied) = (Mutex::new(Monitor::new(seed)), OnceLock::new());
        Arc::new(Self {
            check,
            monitor,
            denied,
        })
    }

    pub(in crate::driver) fn races(&self) -> Vec<Race> {
        self.lock().races()
    }

    pub(in crate::driver) fn footprint(&self) -> (usize, usize) {
        self.lock().footprint()
    }

    /// The monitor; a thread that panicked in here, which none should, has at most lost an access.
    pub(super) fn lock(&self) -> MutexGuard<'_, Monitor> {
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_off(&self) -> bool {
        self.check == Check::Off
    }

    pub(super) fn check_denied(&self) -> DriverResult<()> {
        self.denied.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Tells the monitor of a call, and does what is to be done about a race that it finds.
    pub(super) fn tell(&self, monitor: &mut Monitor, tell: impl FnOnce(&mut Monitor)) -> DriverResult<()> {
        let before = monitor.races_found();
        tell(monitor);
        if monitor.races_found() == before || self.check != Check::Deny {
            return Ok(());
        }
        self.deny(monitor)
    }

    #[cold]
    pub(super) fn deny(&self, monitor: &Monitor) -> DriverResult<()> {
        let races = monitor.races();
        if let Some(race) = races.last() {
            eprintln!("{race}");
            let error =
                DriverError::with_detail("cuda_rt::check", ErrorCode::ILLEGAL_STATE, race.to_string());
            let _ = self.denied.set(error);
        }
        self.check_denied()
    }
}
