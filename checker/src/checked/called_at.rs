//! The call of the program that a driver call belongs to, and its place in the source.

use super::FILES;
use cuda_rt_driver::{CallSite, CalledAt, Operation, Site};

/// The operation of a followed call: its name, and its place. The place is the call of the typed
/// API that the call is part of, or else the call itself.
pub(super) fn operation(call: CallSite) -> Operation {
    let site = match CalledAt::current() {
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
    let statement = CalledAt::current().filter(|at| matches!(at, Site::Statement(_)));
    Operation {
        name: passed.during,
        site: statement.unwrap_or(Site::Code(passed.at)),
    }
}

/// Runs `body`, whose driver calls count as made by statement `index` of a program, counted from 0.
/// All calls of a replayed log have one place in the code; this number tells them apart in reports.
pub fn at_statement<R>(index: usize, body: impl FnOnce() -> R) -> R {
    let _until = CalledAt::at(Site::Statement(index));
    body()
}
