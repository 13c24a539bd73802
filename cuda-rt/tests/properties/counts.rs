//! Counts of what programs did, by kind: a kind that no program does is not tested.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! kinds {
    ($($name:ident)*) => {
        /// A kind of work, or a way in which memory comes and goes.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Kind { $($name,)* }

        impl Kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

kinds! {
    // Work.
    Fill Kernel Add Upload Download
    CopyRows UploadRows DownloadRows
    CopyPlanes UploadPlanes DownloadPlanes
    ReadMapped WriteMapped FillMapped
    HostFunction
    // What a graph launched of these.
    RowsInGraph PlanesInGraph MappedInGraph HostFunctionInGraph ManagedInGraph
    // Run-time streams.
    OpenSame OpenOrdered ReleaseKept
    View ViewOrdered ReadByRef ReadByRefOrdered KeptHost
    // Graphs that a run-time stream keeps.
    KeptGraph LentGraph KeptGraphHost KeptFromGraph
    // New memory.
    Returned ReturnedMapped FilledPinned
    ManagedFromHost ManagedZeroed ManagedFilled ManagedReturned
    // Managed memory.
    ManagedWork ManagedSeen ManagedWritten ManagedShared Prefetch
    // Loans, shares, parts.
    Lend LendRef LendAll HostLease SplitInto JoinAll
    // Memory of another device.
    Abroad CopyFromPeer CopyToPeer
}

/// How often each kind was done.
#[derive(Clone, Copy)]
pub(crate) struct Counts([u64; Kind::ALL.len()]);

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(Kind::ALL.iter().zip(self.0)).finish()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self([0; Kind::ALL.len()])
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(to, from)| *to += from);
    }
}

impl Counts {
    /// Panics if a kind is missing, unless there were few plans.
    pub(crate) fn judge(&self, plans: u64) {
        let kinds = Kind::ALL.iter().zip(self.0);
        let missing: Vec<_> = kinds
            .filter(|(_, count)| *count == 0)
            .map(|(kind, _)| kind)
            .collect();
        assert!(
            plans < ENOUGH || missing.is_empty(),
            "no program does {missing:?}"
        );
    }
}

/// The number of plans in which each kind occurs, by experience in ten plans or more.
const ENOUGH: u64 = 300;

/// Counts that the threads of a plan share.
#[derive(Debug)]
pub(crate) struct Counters([AtomicU64; Kind::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Kind::ALL.len()])
    }
}

impl Counters {
    pub(crate) fn did(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|kind| self.0[kind].load(Ordering::Relaxed)))
    }
}
