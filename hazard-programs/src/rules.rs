//! CUDA's ordering rules, built on the checker: exactly the edges that the documentation promises.
//!
//! Comments cite the rules by number. The rules restate the CUDA programming guide ("Streams",
//! "Events"), and the runtime API's "API synchronization behavior" and "Stream synchronization
//! behavior".

use std::ops::Range;

use cuda_rt_checker::VectorClock;
use cuda_rt_checker::{ActorId, Checker};
use cuda_rt_driver::AccessKind;
use cuda_rt_driver::ActorKind;
use cuda_rt_driver::Operation;

/// A stream of a [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamId(usize);

/// A device of a [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceId(usize);

/// A stream's relation to its device's legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The legacy default stream itself.
    Legacy,
    /// This stream and the legacy default stream wait for each other (rule 3).
    Blocking,
    /// Neither stream waits for the other (`cudaStreamNonBlocking`).
    NonBlocking,
}

#[derive(Debug)]
struct Stream {
    actor: ActorId,
    device: DeviceId,
    kind: StreamKind,
}

#[derive(Debug)]
struct Device {
    legacy: StreamId,
    streams: Vec<StreamId>,
    /// All later work of the device comes after this clock: it holds the barriers of rule 12.
    barrier: VectorClock,
}

/// Devices and their streams, with the order of their work.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) checker: Checker,
    streams: Vec<Stream>,
    devices: Vec<Device>,
}

impl Machine {
    pub(super) fn thread(&mut self, name: &str) -> ActorId {
        self.checker.actor(ActorKind::HostThread, name)
    }

    pub(super) fn device(&mut self, ordinal: u32) -> DeviceId {
        let id = DeviceId(self.devices.len());
        let legacy = StreamId(self.streams.len());
        let name = format!("default@{ordinal}");
        let actor = self.checker.actor(ActorKind::CudaStream, name);
        self.streams.push(Stream {
            actor,
            device: id,
            kind: StreamKind::Legacy,
        });
        let (streams, barrier) = (vec![legacy], VectorClock::default());
        self.devices.push(Device {
            legacy,
            streams,
            barrier,
        });
        id
    }

    pub(super) fn legacy(&self, device: DeviceId) -> StreamId {
        self.devices[device.0].legacy
    }

    pub(super) fn stream(&mut self, name: &str, device: DeviceId, kind: StreamKind) -> StreamId {
        let id = StreamId(self.streams.len());
        let actor = self.checker.actor(ActorKind::CudaStream, name);
        self.streams.push(Stream { actor, device, kind });
        self.devices[device.0].streams.push(id);
        id
    }

    /// Starts the next operation of `stream`, called by `thread` (rules 1 to 3). The operation
    /// comes after the call, after the stream's earlier work, and after all work that a stream of
    /// its kind waits for.
    pub(super) fn issue(&mut self, stream: StreamId, thread: ActorId) -> ActorId {
        let contents = self.contents(stream);
        let actor = self.streams[stream.0].actor;
        self.checker.wait(actor, &contents);
        self.checker.wait_event(actor, thread);
        self.checker.step(actor);
        actor
    }

    /// The clock of the stream's contents: its own work, and the work of the streams that it waits
    /// for.
    pub(super) fn contents(&self, stream: StreamId) -> VectorClock {
        let Stream { actor, device, kind } = self.streams[stream.0];
        let device = &self.devices[device.0];
        let mut clock = self.checker.clock(actor).clone();
        clock.join(&device.barrier);
        match kind {
            StreamKind::NonBlocking => {}
            StreamKind::Blocking => clock.join(self.checker.clock(self.streams[device.legacy.0].actor)),
            StreamKind::Legacy => {
                let streams = device.streams.iter().map(|s| &self.streams[s.0]);
                for other in streams.filter(|s| s.kind == StreamKind::Blocking) {
                    clock.join(self.checker.clock(other.actor));
                }
            }
        }
        clock
    }

    /// The clock of all the device's work (rule 5).
    pub(super) fn device_contents(&self, device: DeviceId) -> VectorClock {
        let mut clock = self.devices[device.0].barrier.clone();
        for stream in &self.devices[device.0].streams {
            clock.join(self.checker.clock(self.streams[stream.0].actor));
        }
        clock
    }

    /// Starts an operation of `stream` that is also a barrier on `devices`: it comes after all
    /// their earlier work, and before all their later work (rule 12; `cudaMemcpyPeer` is
    /// "serialized with respect to all pending and future asynchronous work").
    pub(super) fn issue_barrier(
        &mut self,
        stream: StreamId,
        thread: ActorId,
        devices: &[DeviceId],
    ) -> ActorId {
        let actor = self.issue(stream, thread);
        for device in devices {
            let contents = self.device_contents(*device);
            self.checker.wait(actor, &contents);
        }
        for device in devices {
            self.devices[device.0].barrier.join(self.checker.clock(actor));
        }
        actor
    }

    /// Records an access by the present step of `actor`.
    pub(super) fn access(
        &mut self,
        actor: ActorId,
        bytes: Range<u64>,
        kind: AccessKind,
        operation: Operation,
    ) {
        self.checker.access(actor, bytes, kind, operation);
    }
}
