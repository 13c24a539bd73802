//! What a driver is told that it could not see: where memory passes to the host, and what others
//! use.

use std::ffi::c_void;
use std::panic::Location;
use std::ptr::NonNull;

use super::{DeviceAddress, RawStream};

/// A call by which memory passes from the host to a stream, or back.
#[derive(Clone, Copy, Debug)]
pub struct CallSite {
    /// Its name.
    pub during: &'static str,
    /// Where it stands.
    pub at: &'static Location<'static>,
}

impl CallSite {
    /// The call `during`, where the caller stands.
    #[inline]
    #[track_caller]
    pub fn here(during: &'static str) -> Self {
        let at = Location::caller();
        Self { during, at }
    }
}

/// What [`Tools::hint`](super::Tools::hint) tells.
#[derive(Clone, Copy, Debug)]
pub enum Hint<'a> {
    /// The host may have written page-locked memory up to now, or may from now on.
    HostAccess {
        /// Where it starts.
        address: NonNull<c_void>,
        /// Its length in bytes.
        bytes: usize,
        /// The call by which it passes.
        passed: CallSite,
    },
    /// Memory that someone else allocated is owned here from now on, or was until now: it goes once
    /// this is told.
    ForeignMemory {
        /// Where it starts: on the device, or page-locked on the host.
        address: DeviceAddress,
        /// Its length in bytes.
        bytes: usize,
        /// The call by which it came.
        passed: CallSite,
        /// Whether it goes.
        ends: bool,
    },
    /// What the program calls a stream.
    StreamName {
        /// The stream.
        stream: RawStream,
        /// Its name.
        name: &'a str,
    },
}

/// Memory that work enqueued by others uses, as [`Streams::foreign`](super::Streams::foreign) is
/// told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignUse {
    /// Where it starts: on the device, or page-locked on the host.
    pub address: DeviceAddress,
    /// Its length in bytes; more than 0.
    pub bytes: usize,
    /// Whether it is written, and perhaps read; only read else.
    pub writes: bool,
}
