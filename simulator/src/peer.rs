//! Other devices of the same host: access to their memory, and copies from and to it.

use super::clock::SpanKind;
use super::collective::SimCommunicator;
use super::fault::Call;
use super::stream::Op;
use super::{SimDevice, State};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode, PeerAccess, RawPeer, RawStream};

impl SimDevice {
    /// How others name a device of this host.
    pub(super) fn peer_at(&self, device: usize) -> RawPeer {
        // Not a number that a GPU could have.
        RawPeer(1 << 63 | self.simulator.0.host << 16 | device as u64)
    }

    /// The device of this host that others name so.
    fn device_of(&self, state: &State, call: Call, peer: RawPeer) -> DriverResult<usize> {
        let mut devices = 0..state.memories.len();
        let found = devices.find(|device| self.peer_at(*device) == peer);
        found.ok_or_else(|| {
            let detail = format!("no device of the same simulated host ({})", state.origin());
            DriverError::with_detail(call.name(), ErrorCode::INVALID_DEVICE, detail)
        })
    }

    pub(super) fn access_to(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.enter(Call::PeerAccess, |state| {
            let device = self.device_of(state, Call::PeerAccess, peer)?;
            Ok(if device == self.device || state.config.peer_access {
                PeerAccess::Direct
            } else {
                PeerAccess::Staged
            })
        })
    }

    pub(super) fn ranks(&self, ranks: &[RawPeer]) -> DriverResult<SimCommunicator> {
        self.enter(Call::CommunicatorInit, |state| {
            let mut devices = Vec::with_capacity(ranks.len());
            for rank in ranks {
                let device = self.device_of(state, Call::CommunicatorInit, *rank)?;
                if devices.contains(&device) {
                    return Err(state.error(Call::CommunicatorInit, ErrorCode::NCCL_INVALID_USAGE));
                }
                devices.push(device);
            }
            Ok(SimCommunicator::new(self.simulator.clone(), devices))
        })
    }

    pub(super) fn copy_between(
        &self,
        (to, destination): (RawPeer, DeviceAddress),
        (from, source): (RawPeer, DeviceAddress),
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        self.enter(Call::CopyPeer, |state| {
            let to = self.device_of(state, Call::CopyPeer, to)?;
            let from = self.device_of(state, Call::CopyPeer, from)?;
            let op = Op::Copy {
                kind: SpanKind::CopyPeer,
                destination: destination.0,
                source: source.0,
                bytes,
            };
            let ranges = [(to, destination), (from, source)];
            state.transfer(Call::CopyPeer, stream, &ranges, bytes, op)
        })
    }
}
