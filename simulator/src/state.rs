//! The state of a simulated host, and the checks at the start of a call.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use super::host_function::HostFunctions;
use super::op::Op;
use super::peer::new_peer;
use super::random::Random;
use super::reach::{HostRanges, Reach};
use super::stream::Stream;
use super::{Call, Core, Counters, SimConfig, clock, event, fault, graph, memory, module, schedule, slab};
use cuda_rt_driver::{DeviceAddress, DriverError, DriverResult, ErrorCode, RawPeer, RawStream};

/// All mutable state; one thread at a time runs calls and operations.
pub(super) struct State {
    pub(super) config: Arc<SimConfig>,
    pub(super) random: Random,
    pub(super) schedule: schedule::Schedule,
    pub(super) clock: clock::Clock,
    pub(super) faults: fault::Faults,
    pub(super) streams: slab::Slab<Stream>,
    pub(super) events: slab::Slab<event::Event>,
    pub(super) captures: slab::Slab<graph::Capture>,
    pub(super) graphs: slab::Slab<graph::Graph>,
    pub(super) modules: slab::Slab<module::Module>,
    pub(super) functions: slab::Slab<module::Function>,
    /// The memories, by device.
    pub(super) memories: Vec<memory::Memory>,
    /// The names by which devices refer to each other, by device.
    pub(super) peers: Vec<RawPeer>,
    /// Number of nodes ever made.
    pub(super) nodes_made: u64,
    /// Host memory that every device reaches.
    pub(super) host: HostRanges,
    /// The devices that were given access to the memory of another device: (who, whose).
    pub(super) granted: HashSet<(usize, usize)>,
    pub(super) counters: Counters,
    pub(super) host_functions: HostFunctions,
    /// Text that kernels have printed, and that nobody has written yet.
    pub(super) printed: String,
    /// The sticky error that lost the device.
    pub(super) lost: Option<DriverError>,
}

impl State {
    pub(super) fn new(config: Arc<SimConfig>, core: Weak<Core>) -> Self {
        let mut random = Random::new(config.seed);
        Self {
            schedule: schedule::Schedule::new(&mut random),
            random,
            clock: clock::Clock::default(),
            faults: fault::Faults::default(),
            streams: slab::Slab::default(),
            events: slab::Slab::default(),
            captures: slab::Slab::default(),
            graphs: slab::Slab::default(),
            modules: slab::Slab::default(),
            functions: slab::Slab::default(),
            memories: Vec::new(),
            peers: Vec::new(),
            nodes_made: 0,
            host: HostRanges::default(),
            granted: HashSet::new(),
            counters: Counters::default(),
            host_functions: HostFunctions::new(core),
            printed: String::new(),
            lost: None,
            config,
        }
    }

    /// Adds a device. Returns its number, and the name by which others refer to it.
    pub(super) fn add_device(&mut self) -> (usize, RawPeer) {
        let device = self.memories.len();
        let (seed, bytes) = (self.config.seed ^ (device as u64) << 32, self.config.memory_bytes);
        self.memories.push(memory::Memory::new(seed, bytes));
        self.clock.add_device();
        let peer = new_peer();
        self.peers.push(peer);
        (device, peer)
    }

    /// Begins a call that makes no call of CUDA: it is not counted, and no fault is due.
    pub(super) fn enter_uncounted(&mut self, call: Call) -> DriverResult<()> {
        self.check_lost(call)?;
        self.run_in_background();
        self.check_lost(call)
    }

    pub(super) fn enter(&mut self, call: Call) -> DriverResult<()> {
        self.counters.call(call);
        self.check_lost(call)?;
        if let Some(code) = self.faults.take(call) {
            let detail = format!("injected ({})", self.origin());
            let error = DriverError::with_detail(call.name(), code, detail);
            if error.is_sticky() {
                self.lost = Some(error.clone());
            }
            return Err(error);
        }
        self.run_in_background();
        self.check_lost(call)
    }

    /// Notes that the host has waited for a stream or event.
    pub(super) fn synchronized(&mut self) {
        self.memories.iter_mut().for_each(memory::Memory::synchronized);
    }

    pub(super) fn check_lost(&self, call: Call) -> DriverResult<()> {
        match &self.lost {
            None => Ok(()),
            Some(lost) => Err(DriverError::with_detail(call.name(), lost.code(), lost.detail())),
        }
    }

    pub(super) fn origin(&self) -> String {
        format!("simulated device, seed {}", self.config.seed)
    }

    pub(super) fn error(&self, call: Call, code: ErrorCode) -> DriverError {
        DriverError::with_detail(call.name(), code, self.origin())
    }

    /// The memory that work of `device` reaches.
    pub(super) fn reach(&self, device: usize) -> Reach<'_> {
        Reach {
            device,
            memories: &self.memories,
            granted: &self.granted,
            host: &self.host,
        }
    }

    /// The device address of page-locked memory: the host's.
    pub(super) fn mapped_address(&self, address: NonNull<c_void>) -> DriverResult<DeviceAddress> {
        let address = address.as_ptr().expose_provenance() as u64;
        if self.host.is_registered(address, 1) {
            return Ok(DeviceAddress(address));
        }
        Err(self.error(Call::MappedAddress, ErrorCode::INVALID_VALUE))
    }

    /// Enqueues a copy or fill with these ranges on devices. With no bytes it enqueues nothing.
    pub(super) fn transfer(
        &mut self,
        call: Call,
        stream: RawStream,
        ranges: &[(usize, DeviceAddress)],
        bytes: usize,
        op: Op,
    ) -> DriverResult<()> {
        self.stream(call, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        if !ranges
            .iter()
            .all(|(device, address)| self.reach(*device).contains(address.0, bytes as u64))
        {
            return Err(self.error(call, ErrorCode::INVALID_VALUE));
        }
        self.submit(call, stream, op)
    }

    pub(super) fn alloc(&mut self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        let s = self.stream(Call::Alloc, stream)?;
        if bytes == 0 {
            return Err(self.error(Call::Alloc, ErrorCode::INVALID_VALUE));
        }
        if s.capture.is_some() {
            return self.capture_alloc(stream, bytes as u64).map(DeviceAddress);
        }
        let s = self.streams.get_mut(stream.0).expect("found above");
        let taken = self.memories[s.device].take(bytes as u64, Some(&mut s.pending_frees), &mut self.random);
        let Some(address) = taken else {
            return Err(self.error(Call::Alloc, ErrorCode::OUT_OF_MEMORY));
        };
        let salt = self.random.next();
        self.submit(
            Call::Alloc,
            stream,
            Op::Spoil {
                address,
                bytes: bytes as u64,
                salt,
            },
        )?;
        Ok(DeviceAddress(address))
    }

    pub(super) fn free(&mut self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        let s = self.stream(Call::Free, stream)?;
        if s.capture.is_some() {
            return self.capture_free(stream, address.0);
        }
        let s = self.streams.get_mut(stream.0).expect("found above");
        let memory = &mut self.memories[s.device];
        let Some(len_bytes) = memory.retire(address.0, s.issued(), &mut s.pending_frees) else {
            return Err(self.error(Call::Free, ErrorCode::INVALID_VALUE));
        };
        self.submit(
            Call::Free,
            stream,
            Op::Free {
                address: address.0,
                len_bytes,
            },
        )
    }

    /// Overwrites a block as its owner changes: `Call::Free` stands for the end of the last owner,
    /// `Call::Alloc` for the beginning of the next one. Costs no time, because a GPU gets no call.
    pub(super) fn note_owner(
        &mut self,
        call: Call,
        address: DeviceAddress,
        stream: RawStream,
    ) -> DriverResult<()> {
        let s = self.stream(call, stream)?;
        let (device, captured) = (s.device, s.capture.is_some());
        let bytes = match captured {
            true => None,
            false => self.memories[device].set_free(address.0, call == Call::Free),
        };
        let Some(bytes) = bytes else {
            return Err(self.error(call, ErrorCode::INVALID_VALUE));
        };
        if call == Call::Free {
            self.counters.free_noted();
        }
        let (address, salt) = (address.0, self.random.next());
        self.enqueue(stream.0, Op::Spoil { address, bytes, salt });
        Ok(())
    }
}
