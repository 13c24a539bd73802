//! Other devices of the same host: access to their memory, and copies between devices.

use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::SpanKind;
use super::collective::SimCommunicator;
use super::fault::Call;
use super::op::Op;
use super::{SimDevice, State};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode, PeerAccess, RawPeer, RawStream};

/// A name that no other device of the process has, whatever its host.
pub(super) fn new_peer() -> RawPeer {
    static DEVICES: AtomicU64 = AtomicU64::new(0);

    // A counter needs no ordering. No process lives long enough to make 2^63 devices.
    let number = DEVICES.fetch_add(1, Ordering::Relaxed);
    // Not a number that a GPU could have.
    RawPeer(1 << 63 | number)
}

impl SimDevice {
    /// The device of this host with this name.
    fn device_of(&self, state: &State, call: Call, peer: RawPeer) -> DriverResult<usize> {
        let found = state.peers.iter().position(|name| *name == peer);
        found.ok_or_else(|| {
            let detail = format!("no device of the same simulated host ({})", state.origin());
            DriverError::with_detail(call.name(), ErrorCode::INVALID_DEVICE, detail)
        })
    }

    pub(super) fn access_to(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.enter(Call::PeerAccess, |state| {
            let device = self.device_of(state, Call::PeerAccess, peer)?;
            Ok(if device == self.device || state.config.peer_access {
                state.granted.insert((self.device, device));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cuda_rt_driver::Peers;

    use crate::{SimConfig, SimDriver};

    /// Counterexample: names once were the host's number, shifted, plus the device's number. Device
    /// 65,536 of the first host then had the name of device 0 of the second host, and each took the
    /// other's handles.
    #[test]
    fn devices_of_two_hosts_never_have_one_name() {
        let (first, second) = (SimDriver::new(SimConfig::new()), SimDriver::new(SimConfig::new()));
        let mut more: Vec<Arc<SimDriver>> = Vec::new();
        for _ in 0..1 << 16 {
            more.push(first.another());
            // Only their names matter.
            more.truncate(1);
        }
        assert!(first.peer_access(more[0].peer()).is_ok());
        assert!(first.peer_access(second.peer()).is_err());
        assert!(second.peer_access(first.peer()).is_err());
        let last = first.another();
        assert!(second.peer_access(last.peer()).is_err());
    }
}
