//! Handles as plain numbers, and the result type of driver calls.

use std::fmt;

use crate::DriverError;

/// The result of every driver call.
pub type DriverResult<T> = Result<T, DriverError>;

macro_rules! raw_handles {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// A plain number: copying it copies no ownership, and using it is `unsafe`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    )* };
}

raw_handles! {
    /// A stream (`CUstream`). Never the default stream.
    RawStream;
    /// An event (`CUevent`).
    RawEvent;
    /// A device address (`CUdeviceptr`), in bytes.
    DeviceAddress;
    /// An instantiated graph (`CUgraphExec`), with the graph that it was made from.
    RawGraph;
    /// A node of a graph (`CUgraphNode`).
    RawNode;
    /// A module that was loaded from bytes at run time (`CUmodule`).
    RawModule;
    /// A function of such a module (`CUfunction`).
    RawFunction;
    /// A device, by the name that other devices of its backend use (`CUdevice`).
    RawPeer;
}
