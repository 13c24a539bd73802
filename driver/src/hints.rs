//! Hints: facts that a driver's checker cannot see from calls, such as where memory passes to the
//! host, and which memory foreign code uses.

use std::ffi::c_void;
use std::panic::Location;
use std::ptr::NonNull;

use super::{AccessKind, DeviceAddress, RawEvent, RawStream};

/// A call by which memory passes from the host to a stream, or back.
#[derive(Clone, Copy, Debug)]
pub struct CallSite {
    /// The call's name.
    pub during: &'static str,
    /// The call's place in the source.
    pub at: &'static Location<'static>,
}

impl CallSite {
    /// The call `during`, at the place of this function's caller.
    #[inline]
    #[track_caller]
    pub fn here(during: &'static str) -> Self {
        let at = Location::caller();
        Self { during, at }
    }
}

/// A call about an event that the host has seen over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The stream would wait ([`wait_event`](super::Streams::wait_event)).
    StreamWait(RawStream),
    /// The host would wait ([`synchronize_event`](super::Events::synchronize_event)).
    HostWait,
    /// The host would ask ([`query_event`](super::Events::query_event)).
    Query,
}

/// A fact given to [`Tools::hint`](super::Tools::hint).
#[derive(Clone, Copy, Debug)]
pub enum Hint<'a> {
    /// The host may have accessed this page-locked memory until now, or may access it from now on.
    HostAccess {
        /// Start of the memory.
        address: NonNull<c_void>,
        /// Length in bytes.
        bytes: usize,
        /// Whether the host may write the memory, or only read it.
        access: AccessKind,
        /// The call by which the memory passes.
        passed: CallSite,
    },
    /// Foreign memory that the runtime owns from now on, or, if `ends`, owned until now. The memory
    /// may be freed only after this hint with `ends`.
    ForeignMemory {
        /// Start of the memory: on the device, or page-locked on the host.
        address: DeviceAddress,
        /// Length in bytes.
        bytes: usize,
        /// The call by which the memory came or goes.
        passed: CallSite,
        /// Whether the runtime's ownership ends.
        ends: bool,
    },
    /// A wait for an event was left out, because the host has seen the event over. A simulated
    /// device models it like the wait: the thread that saw the event over may be another one, and
    /// the model's times must not depend on that.
    LeftOut {
        /// The event.
        event: RawEvent,
        /// The call that was left out.
        call: LeftOut,
    },
    /// The program's name for a stream.
    StreamName {
        /// The stream.
        stream: RawStream,
        /// Its name.
        name: &'a str,
    },
}

/// Memory that foreign work or a host function uses, as told to
/// [`Streams::foreign`](super::Streams::foreign) and
/// [`Streams::launch_host_function`](super::Streams::launch_host_function).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignUse {
    /// Start of the memory: on the device, or page-locked on the host.
    pub address: DeviceAddress,
    /// Length in bytes; more than 0.
    pub bytes: usize,
    /// Whether the work writes the memory (and perhaps reads it); otherwise it only reads.
    pub writes: bool,
}
