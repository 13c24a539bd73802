//! [`Entries`]: the logged calls of a capture or of a dry run.

use std::fmt;

use cuda_rt_driver::OwnedArguments;
use cuda_rt_driver::{CopyExtent, LaunchShape, Pitch};
use cuda_rt_driver::{DeviceAddress, RawNode};

/// The calls of one run, in their order. Streams and records are numbered in the order of their
/// first use, so that two runs can be compared.
#[derive(Debug, Default)]
pub(crate) struct Entries(pub(super) Vec<Entry>);

#[derive(Debug)]
pub(super) enum Entry {
    Record {
        stream: usize,
    },
    Wait {
        stream: usize,
        record: Option<usize>,
    },
    Alloc {
        stream: usize,
        bytes: usize,
        address: DeviceAddress,
    },
    Free {
        stream: usize,
        address: DeviceAddress,
    },
    Copy {
        stream: usize,
        kind: Copied,
        to: u64,
        from: u64,
        bytes: usize,
    },
    CopyRows {
        stream: usize,
        kind: Copied,
        to: (u64, Pitch),
        from: (u64, Pitch),
        extent: CopyExtent,
    },
    Fill {
        stream: usize,
        to: DeviceAddress,
        pattern: Box<[u8]>,
        count: usize,
    },
    Launch(Launch),
    /// The closure is not logged: two closures cannot be compared.
    HostFunction {
        stream: usize,
    },
    Foreign {
        stream: usize,
        name: &'static str,
    },
}

#[derive(Debug)]
pub(super) struct Launch {
    pub(super) stream: usize,
    pub(super) shape: LaunchShape,
    pub(super) parameters: OwnedArguments,
    /// Whether values may have padding. Padding must not be read, so padded launches cannot be
    /// compared.
    pub(super) padded: bool,
    /// `None` if the driver did not say, or in a dry run.
    pub(super) node: Option<RawNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    ToDevice,
    ToHost,
    Within,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToDevice => " to the device",
            Self::ToHost => " to the host",
            Self::Within => "",
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { .. } => f.write_str("the end of a stream's part"),
            Self::Wait { .. } => f.write_str("a wait"),
            Self::Alloc { bytes, .. } => write!(f, "an allocation of {bytes} bytes"),
            Self::Free { .. } => f.write_str("the end of an allocation"),
            Self::Copy { kind, bytes, .. } => write!(f, "a copy{kind} of {bytes} bytes"),
            Self::CopyRows { kind, extent, .. } => {
                let CopyExtent {
                    width_bytes,
                    height,
                    depth,
                } = extent;
                write!(
                    f,
                    "a copy{kind} of {depth} planes of {height} rows of {width_bytes} bytes"
                )
            }
            Self::Fill { pattern, count, .. } => write!(f, "a fill of {} bytes", pattern.len() * count),
            Self::Launch(launch) => write!(f, "a launch of `{}`", launch.parameters.kernel().name),
            Self::HostFunction { .. } => f.write_str("a host function"),
            Self::Foreign { name, .. } => write!(f, "a foreign call `{name}`"),
        }
    }
}

impl Entries {
    pub(super) fn operation(&self, place: usize) -> usize {
        let counts = |entry: &&Entry| {
            !matches!(
                entry,
                Entry::Record { .. } | Entry::Wait { .. } | Entry::Free { .. }
            )
        };
        1 + self.0.iter().take(place).filter(counts).count()
    }

    /// Whether the run has a foreign call. A dry run ends at a foreign call.
    pub(crate) fn calls_foreign(&self) -> bool {
        self.foreign().is_some()
    }

    pub(super) fn foreign(&self) -> Option<usize> {
        self.0
            .iter()
            .position(|entry| matches!(entry, Entry::Foreign { .. }))
    }

    pub(super) fn allocates(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry, Entry::Alloc { .. }))
    }

    pub(super) fn launch(&self, place: usize) -> Option<&Launch> {
        match self.0.get(place) {
            Some(Entry::Launch(launch)) => Some(launch),
            _ => None,
        }
    }

    /// Copies the nodes of launches from `from`, a run of the same calls.
    pub(super) fn take_nodes(&mut self, from: &Self) {
        for (new, old) in self.0.iter_mut().zip(&from.0) {
            if let (Entry::Launch(new), Entry::Launch(old)) = (new, old) {
                new.node = old.node;
            }
        }
    }
}
