//! Other devices: access to them, copies between them, collectives.

use super::calls::group;
use crate::{Communicator, DeviceAddress, DriverResult, PeerAccess, RawPeer, RawStream};

group! {
    /// Other devices: access, copies, collectives.
    pub trait Peers, forwarded by $peer_calls {
        /// How other devices name this one. Calls nothing.
        fn peer(&self) -> RawPeer;

        /// Lets this device get at what [`alloc`](crate::Memory::alloc) of `peer` gives out, from
        /// now on, and says how it does (`cuDeviceCanAccessPeer`, `cuMemPoolSetAccess`). Cheap once
        /// done. An error if `peer` is no device that this one can exchange anything with, events
        /// included: one of another backend, or of another simulated host.
        fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess>;

        /// Copies `bytes` from memory of one device to memory of another, of which one is this
        /// device, in the order of `stream`, which is this device's (`cuMemcpyDtoDAsync`, where
        /// [`peer_access`](Self::peer_access) said that it is direct; else `cuMemcpyPeerAsync`).
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

        /// Makes ranks of this device and others, by rank, this one among them (`ncclCommInitAll`).
        /// Blocks for as long as the devices take to connect. Where two of them have a link,
        /// [`peer_access`](Self::peer_access) was asked for both ways before: what the ranks send
        /// and receive is used by all of them.
        fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>>;
    }
}
