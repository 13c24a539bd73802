//! [`HeldEvents`]: events that wait until the caller's lock is free.

use std::marker::PhantomData;

use super::events::{Later, later};

/// Events of this thread that wait for the drop of this value; [`hold_events`] makes it.
///
/// A guard of a lock that is freed before the events are told, by the order of its fields:
///
/// ```
/// use cuda_rt::observability::{HeldEvents, hold_events};
/// use std::sync::{Mutex, MutexGuard};
///
/// struct Locked<'a> {
///     workspace: MutexGuard<'a, Vec<u8>>,
///     _held: HeldEvents,
/// }
/// let workspace = Mutex::new(vec![0; 8]);
/// let _held = hold_events(); // made before the lock is taken
/// let locked = Locked { workspace: workspace.lock().unwrap(), _held };
/// assert_eq!(locked.workspace.len(), 8);
/// ```
#[derive(Debug)]
#[must_use = "the drop tells the events; keep the value until the lock is free"]
pub struct HeldEvents {
    _later: Later,
    /// The events are of one thread.
    thread: PhantomData<*const ()>,
}

/// Holds back the events that this thread would tell subscribers of `tracing`, until the value is
/// dropped; where there are several, until the last one is dropped. The drop tells them. Never
/// blocks; without the feature `tracing` it does nothing.
///
/// A subscriber may call any code, also the code that calls this library. So whoever keeps a lock
/// across a call of this library, for example across
/// [`ForeignCall::enqueue`](crate::interop::ForeignCall::enqueue), calls `hold_events` before the
/// lock is taken. Counterexample: `enqueue` fails, and a subscriber is told under the lock of a
/// library's workspace. The subscriber uses the same library, and waits for its own thread for
/// ever.
///
/// Spans of waits that begin meanwhile are left out. If the value is leaked, the thread tells
/// nothing any more.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::observability::hold_events;
/// use std::sync::Mutex;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let workspace = Mutex::new(compute.alloc_zeroed::<u8>(256)?);
///
/// let held = hold_events(); // before the lock: dropped last
/// let mut locked = workspace.lock().unwrap();
/// compute.fill(&mut *locked, 1)?; // an error would be told at the end
/// drop(locked);
/// drop(held);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub fn hold_events() -> HeldEvents {
    HeldEvents {
        _later: later(),
        thread: PhantomData,
    }
}
