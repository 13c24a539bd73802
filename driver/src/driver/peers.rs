//! Other devices: access to them, copies between them, collectives.

use super::calls::group;
use crate::{Communicator, DeviceAddress, DriverResult, PeerAccess, RawPeer, RawStream};

group! {
    /// Other devices: access, copies, collectives.
    pub trait Peers, forwarded by $peer_calls {
        /// The name by which other devices refer to this one. Makes no driver call.
        fn peer(&self) -> RawPeer;

        /// Gives this device access to all memory that [`alloc`](crate::Memory::alloc) of `peer`
        /// gives out, now and later. Returns the kind of access (`cuDeviceCanAccessPeer`,
        /// `cuMemPoolSetAccess`). Later calls are cheap.
        ///
        /// Returns an error if this device can exchange nothing with `peer`, not even events:
        /// `peer` belongs to another backend, or to another simulated host.
        fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess>;

        /// Copies `bytes` between memory of two devices, in the order of `stream`. One of the
        /// devices is this one, and the stream is on this device. The call is `cuMemcpyDtoDAsync`
        /// where [`peer_access`](Self::peer_access) returned direct access, and `cuMemcpyPeerAsync`
        /// elsewhere.
        ///
        /// # Safety
        /// As [`copy_to_device`](crate::Copies::copy_to_device), and `peer_access` of the other
        /// device has succeeded.
        unsafe fn copy_peer(
            &self,
            destination: (RawPeer, DeviceAddress),
            source: (RawPeer, DeviceAddress),
            bytes: usize,
            stream: RawStream,
        ) -> DriverResult<()>;

        /// Makes a communicator of this device and others, one rank for each in the order of
        /// `ranks` (`ncclCommInitAll`). Blocks until the devices are connected.
        ///
        /// If two of the devices have a link, the caller has already called
        /// [`peer_access`](Self::peer_access) in both directions: each rank uses memory that other
        /// ranks send from and receive to.
        fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>>;
    }
}
