//! Other devices: access to their memory, and copies between devices.
//!
//! `cuCtxEnablePeerAccess` does not apply to memory of a pool. The pool itself is told which
//! devices may access it (`cuMemPoolSetAccess`; CUDA Programming Guide, "Stream-Ordered Memory
//! Allocator", device accessibility). With access, a copy is a plain `cuMemcpyDtoDAsync`, as in
//! NVIDIA's sample `streamOrderedAllocationP2P`. Without a path in hardware, `cuMemcpyPeerAsync`
//! stages the copy; a plain copy of pool memory would not.

use std::sync::OnceLock;

use super::context::Context;
use super::{CudaDriver, ffi, stream};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode, PeerAccess, RawPeer, RawStream};

/// The access that one device has to each other device, once it was asked for.
#[derive(Debug)]
pub(super) struct ReachedPeers(Box<[OnceLock<Reached>]>);

/// A device that was opened, and the kind of access to its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) access: PeerAccess,
    context: Handle,
}

#[derive(Clone, Copy, Debug)]
struct Handle(ffi::CUcontext);

// SAFETY: a context may be named from any thread; the pointer is only a name, never dereferenced
// here.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl ReachedPeers {
    /// Makes the table for a machine with this many devices.
    pub(super) fn new(devices: usize) -> Self {
        Self((0..devices).map(|_| OnceLock::new()).collect())
    }

    fn of(&self, peer: RawPeer) -> Option<&OnceLock<Reached>> {
        self.0.get(usize::try_from(peer.0).ok()?)
    }
}

impl CudaDriver {
    /// Grants this device access to the pool of `peer`, at the first call. A failed attempt is
    /// repeated at the next call.
    #[inline]
    pub(super) fn reach(&self, peer: RawPeer) -> DriverResult<Reached> {
        match self.peers.of(peer).and_then(OnceLock::get) {
            Some(reached) => Ok(*reached),
            None => self.reach_first(peer),
        }
    }

    #[cold]
    fn reach_first(&self, peer: RawPeer) -> DriverResult<Reached> {
        let (Some(place), Some(other)) = (self.peers.of(peer), Self::opened(peer.0)) else {
            let detail = format!("device {} was not opened in this process", peer.0);
            return Err(DriverError::with_detail(
                "cuDeviceCanAccessPeer",
                ErrorCode::INVALID_DEVICE,
                detail,
            ));
        };
        let access = access_to(&self.context, &other)?;
        let context = Handle(other.context.handle());
        Ok(*place.get_or_init(|| Reached { access, context }))
    }

    /// # Safety
    /// As [`Peers::copy_peer`](cuda_rt_driver::Peers::copy_peer).
    pub(super) unsafe fn copy_between(
        &self,
        (to, destination): (RawPeer, DeviceAddress),
        (from, source): (RawPeer, DeviceAddress),
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (self.reach(to)?, self.reach(from)?);
        let stream = stream::handle(stream);
        if [to, from].iter().all(|side| side.access == PeerAccess::Direct) {
            // SAFETY: by this function's contract the ranges are live and in bounds, and the stream
            // is live. This device has access to both memories.
            return self.context.enqueue_here("cuMemcpyDtoDAsync", |library| unsafe {
                library.cuMemcpyDtoDAsync_v2(destination.0, source.0, bytes, stream)
            });
        }
        let (to, from) = (to.context.0, from.context.0);
        self.context.enqueue_here("cuMemcpyPeerAsync", |library| {
            // SAFETY: as above; the contexts are the owners of the two memories, and we never
            // destroy a context.
            unsafe { library.cuMemcpyPeerAsync(destination.0, to, source.0, from, bytes, stream) }
        })
    }
}

/// If this variable is 0, links are off: for machines whose links do not work, and for
/// measurements.
const ACCESS_VARIABLE: &str = "CUDA_RT_PEER_ACCESS";

fn is_wanted() -> bool {
    std::env::var_os(ACCESS_VARIABLE).is_none_or(|value| value != "0")
}

/// Lets the device of `context` access the pool of `other`, where the hardware can.
fn access_to(context: &Context, other: &CudaDriver) -> DriverResult<PeerAccess> {
    if context.device() == other.context.device() {
        return Ok(PeerAccess::Direct);
    }
    let mut can = 0;
    // SAFETY: the pointer is to a live int, and both devices are valid.
    unsafe {
        context
            .library()
            .cuDeviceCanAccessPeer(&mut can, context.device(), other.context.device())
    }?;
    if can == 0 || !is_wanted() {
        return Ok(PeerAccess::Staged);
    }
    other.pool.grant(&other.context, context.device())?;
    Ok(PeerAccess::Direct)
}
