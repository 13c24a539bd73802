//! [`Checked`]: a driver that tells the [checker](crate) each call that passes through it.

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::OnceLock;

use cuda_rt_driver::{DeviceAddress, Driver, Hint, Simulated, Tools, Trace};
use cuda_rt_driver::{Operation, Race, Site};

mod called_at;
mod calls;
mod communicator;
mod follow;
mod simulates;
mod watch;

pub use called_at::at_statement;
use called_at::host_operation;
pub use simulates::Simulates;
pub use watch::Watch;

/// The files in which a call through `dyn` seems to have its place.
const FILES: [&str; 2] = [calls::FILE, communicator::FILE];

/// What happens with a race that the checker finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing is checked.
    Off,
    /// A race is kept; [`Tools::races`] returns it.
    Record,
    /// A race is kept and printed to standard error, and every later call that enqueues or waits
    /// fails. The call that raced does not fail, because it has been made.
    #[default]
    Deny,
}

/// A driver whose every operation a checker follows: vector clocks over streams and the host, byte
/// ranges, one run.
///
/// The simulated device always goes through a checker (`SimConfig::check`). A CUDA device does if
/// the environment variable `CUDA_RT_CHECK` is 1. Programs of raw calls can wrap their driver with
/// [`Checked::over`].
///
/// The checker sees host memory where the memory passes between host and streams; the typed API
/// tells it ([`Hint`]).
pub struct Checked<D: Driver + ?Sized> {
    inner: Arc<D>,
    watch: Arc<Watch>,
}

impl<D: Driver + ?Sized> fmt::Debug for Checked<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("inner", &self.inner)
            .field("check", &self.watch.check)
            .finish_non_exhaustive()
    }
}

fn device(address: DeviceAddress, bytes: usize) -> Range<u64> {
    address.0..address.0.saturating_add(bytes as u64)
}

fn host(address: NonNull<c_void>, bytes: usize) -> Range<u64> {
    device(DeviceAddress(address.addr().get() as u64), bytes)
}

impl<D: Driver + Tools + ?Sized> Checked<D> {
    /// Follows the calls to `inner` that are made through this driver, and no others.
    pub fn over(inner: Arc<D>, check: Check) -> Arc<Self> {
        let seed = inner.simulator().map(Simulated::seed);
        Self::watching(inner, Watch::new(check, seed))
    }
}

impl<D: Driver + ?Sized> Checked<D> {
    /// As [`over`](Self::over), but all drivers wrapped this way share one checker. Handoffs
    /// between their devices are then edges between streams.
    pub fn over_with_others(inner: Arc<D>, check: Check) -> Arc<Self> {
        static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();
        Self::watching(inner, Arc::clone(WATCH.get_or_init(|| Watch::new(check, None))))
    }

    /// Follows the calls to `inner`, with the checker of `watch`, which other devices of the host
    /// share.
    pub fn watching(inner: Arc<D>, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self { inner, watch })
    }

    /// The driver whose calls are followed. Calls made directly on it are not followed.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

// SAFETY: `begin_trace` returns the trace of `inner`, and this driver's streams are streams of
// `inner`.
unsafe impl<D: Driver + Tools + ?Sized> Tools for Checked<D> {
    fn simulator(&self) -> Option<&dyn Simulated> {
        self.inner.simulator()
    }

    fn is_checked(&self) -> bool {
        !self.watch.is_off() || self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        let mut races = self.watch.races();
        races.extend(self.inner.races());
        races
    }

    fn hint(&self, note: Hint<'_>) {
        self.inner.hint(note);
        if self.watch.is_off() {
            return;
        }
        // A race found here is denied to the next call, because a hint cannot fail.
        let _ = self.watch.enter(|monitor| {
            self.watch.tell(monitor, |monitor| match note {
                Hint::HostAccess {
                    address,
                    bytes,
                    access,
                    passed,
                } => {
                    monitor.host_access(host(address, bytes), access, host_operation(passed));
                }
                Hint::ForeignMemory {
                    address,
                    bytes,
                    ends: false,
                    ..
                } => monitor.adopt(device(address, bytes)),
                Hint::ForeignMemory {
                    address,
                    bytes,
                    passed,
                    ends: true,
                } => {
                    let operation = Operation {
                        name: "release of foreign memory",
                        site: Site::Code(passed.at),
                    };
                    monitor.unregister(device(address, bytes), operation);
                }
                // The clocks know the order that the wait would have made.
                Hint::LeftOut { .. } => {}
                Hint::StreamName { stream, name } => monitor.name_stream(stream.0, name),
            });
            Ok(())
        });
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.inner.begin_trace()
    }
}
