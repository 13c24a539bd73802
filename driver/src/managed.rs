//! Where managed memory is to be, and what CUDA is told about its use.

/// A location of managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// The memory of the device whose call says so.
    Device,
    /// The memory of the host (`CU_DEVICE_CPU`).
    Host,
}

/// Advice about the use of managed memory (`CUmem_advise`). It changes where the bytes are and how
/// fast they are reached, never their values, nor who may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// The memory is mostly read: each processor that reads a page keeps a copy of the page. A
    /// write ends all other copies.
    SetReadMostly,
    /// Undoes [`SetReadMostly`](Self::SetReadMostly).
    UnsetReadMostly,
    /// The pages should stay at this location, also if others use them.
    SetPreferredLocation(Location),
    /// Undoes [`SetPreferredLocation`](Self::SetPreferredLocation).
    UnsetPreferredLocation,
    /// The processor at this location will use the memory: it keeps the pages mapped, wherever they
    /// are, so that its accesses cause no page faults.
    SetAccessedBy(Location),
    /// Undoes [`SetAccessedBy`](Self::SetAccessedBy).
    UnsetAccessedBy(Location),
}
