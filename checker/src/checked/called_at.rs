//! Where the call stands that a driver call is part of.

use std::cell::Cell;
use std::panic::Location;

use super::calls;
use cuda_rt_driver::{CallSite, Operation, Site};

thread_local! {
    /// The call of the typed API, or the statement of a program, that this thread is in.
    static CALLED_AT: Cell<Option<Site>> = const { Cell::new(None) };
}

// With a destructor it would be gone where a user's thread-local is dropped and calls the library,
// and calls would panic there.
const _: () = assert!(!std::mem::needs_drop::<Cell<Option<Site>>>());

/// The operation of a call that is followed: its name, and the place of the call of the typed API
/// that it is part of, or its own.
pub(super) fn operation(call: CallSite) -> Operation {
    let site = match CALLED_AT.get() {
        Some(site) => site,
        // Through `dyn Driver` the caller is the method itself.
        None if calls::FILES.contains(&call.at.file()) => Site::Unknown,
        None => Site::Code(call.at),
    };
    Operation {
        name: call.during,
        site,
    }
}

/// What the host does at a call by which memory passes: at the statement of a program, if there is
/// one.
pub(super) fn host_operation(passed: CallSite) -> Operation {
    let statement = CALLED_AT.get().filter(|at| matches!(at, Site::Statement(_)));
    Operation {
        name: passed.during,
        site: statement.unwrap_or(Site::Code(passed.at)),
    }
}

/// Until it is dropped, the driver calls of this thread count as made at one place: that of the
/// outermost call of the typed API, where one is made of others.
#[derive(Debug)]
pub struct CalledAt {
    outermost: bool,
}

impl CalledAt {
    /// Calls count as made at this place from now on, unless an outer one is alive.
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

/// Runs `body`, whose driver calls count as made by one statement of a program, from 0: reports
/// then tell the calls of a replayed log apart, which all stand at one place in the code.
pub fn at_statement<R>(index: usize, body: impl FnOnce() -> R) -> R {
    let _until = CalledAt::at(Site::Statement(index));
    body()
}
