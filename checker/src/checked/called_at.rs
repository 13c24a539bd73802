//! The call of the program that a driver call belongs to, and its place in the source.

use std::cell::Cell;
use std::panic::Location;

use super::FILES;
use cuda_rt_driver::{CallSite, Operation, Site};

thread_local! {
    /// The call of the typed API, or the statement of a program, that this thread is inside.
    static CALLED_AT: Cell<Option<Site>> = const { Cell::new(None) };
}

// The cell must have no destructor: a cell with one is destroyed before other thread-locals of the
// thread. A user's thread-local that calls the library in its drop would then panic.
const _: () = assert!(!std::mem::needs_drop::<Cell<Option<Site>>>());

/// The operation of a followed call: its name, and its place. The place is the call of the typed
/// API that the call is part of, or else the call itself.
pub(super) fn operation(call: CallSite) -> Operation {
    let site = match CALLED_AT.get() {
        Some(site) => site,
        // A call through `dyn Driver` has the driver's method as its caller.
        None if FILES.contains(&call.at.file()) => Site::Unknown,
        None => Site::Code(call.at),
    };
    Operation {
        name: call.during,
        site,
    }
}

/// The host's operation at a call by which memory passes. Its place is the program's statement, if
/// there is one.
pub(super) fn host_operation(passed: CallSite) -> Operation {
    let statement = CALLED_AT.get().filter(|at| matches!(at, Site::Statement(_)));
    Operation {
        name: passed.during,
        site: statement.unwrap_or(Site::Code(passed.at)),
    }
}

/// While this value lives, the driver calls of this thread count as made at one place. If calls of
/// the typed API are nested, the outermost call's place counts.
#[derive(Debug)]
pub struct CalledAt {
    outermost: bool,
}

impl CalledAt {
    /// Sets the place of the calls from now on, unless an outer value is alive.
    pub fn new(location: &'static Location<'static>) -> Self {
        Self::at(Site::Code(location))
    }

    fn at(site: Site) -> Self {
        let outermost = CALLED_AT.get().is_none();
        if outermost {
            CALLED_AT.set(Some(site));
        }
        Self { outermost }
    }
}

impl Drop for CalledAt {
    fn drop(&mut self) {
        if self.outermost {
            CALLED_AT.set(None);
        }
    }
}

/// Runs `body`, whose driver calls count as made by statement `index` of a program, counted from 0.
/// All calls of a replayed log have one place in the code; this number tells them apart in reports.
pub fn at_statement<R>(index: usize, body: impl FnOnce() -> R) -> R {
    let _until = CalledAt::at(Site::Statement(index));
    body()
}
