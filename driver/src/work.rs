//! Kinds of work, and the engine of a device on which each kind runs.

/// The kind of a span of work.
///
/// ```
/// use cuda_rt_driver::{Engine, Kind};
///
/// assert_eq!(Kind::CopyToHost.engine(), Some(Engine::ToHost));
/// assert_eq!((Kind::Wait.engine(), Kind::Wait.is_wait()), (None, true));
/// assert_eq!((Kind::Kernel.name(), Kind::Kernel.is_wait()), ("kernel", false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A copy from host to device.
    CopyToDevice,
    /// A copy from device to host.
    CopyToHost,
    /// A copy within the device.
    Copy,
    /// A copy between two devices, or a collective.
    CopyPeer,
    /// A fill.
    Fill,
    /// A kernel.
    Kernel,
    /// A graph that was launched as a whole.
    Graph,
    /// A stream held back by an event of another stream.
    Wait,
    /// Work of a host thread, as a scope named it.
    Stage,
    /// A host thread blocked until work of the device was done.
    HostWait,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::CopyToDevice,
        Self::CopyToHost,
        Self::Copy,
        Self::CopyPeer,
        Self::Fill,
        Self::Kernel,
        Self::Graph,
        Self::Wait,
        Self::Stage,
        Self::HostWait,
    ];

    /// The engine that the work occupies; `None` for work that is not the device's.
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::CopyToDevice => Some(Engine::ToDevice),
            Self::CopyToHost => Some(Engine::ToHost),
            Self::CopyPeer => Some(Engine::Peer),
            Self::Copy | Self::Fill | Self::Kernel | Self::Graph => Some(Engine::Compute),
            Self::Wait | Self::Stage | Self::HostWait => None,
        }
    }

    /// Whether the work is only a wait.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Wait | Self::HostWait)
    }

    /// The kind's name in legends and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::CopyToDevice => "copy to device",
            Self::CopyToHost => "copy to host",
            Self::Copy => "copy",
            Self::CopyPeer => "copy to peer",
            Self::Fill => "fill",
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::Wait => "wait",
            Self::Stage => "host stage",
            Self::HostWait => "host waits",
        }
    }
}

/// A part of the device that does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Copies from host to device.
    ToDevice,
    /// Copies from device to host.
    ToHost,
    /// Kernels, fills, and copies within the device.
    Compute,
    /// Copies between the device and others, and collectives.
    Peer,
}

impl Engine {
    /// Number of engines.
    pub const COUNT: usize = 4;
}
