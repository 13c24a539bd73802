//! Runs the operations of a log one after another in a given order, on plain memory: no streams, no
//! events, no address given out twice.
//!
//! The module shares nothing with the simulated device. For two operations that race, it says
//! whether the host would get other bytes if the operation called later ran first.

use crate::log::{Call, Log, Place};
use crate::order::{Node, Order, World};

/// The contents of memory that was never written, and of memory after its free.
const JUNK: [u8; 2] = [0xa5, 0x5a];

struct Memory(Vec<Vec<u64>>);

impl Memory {
    fn new(log: &Log) -> Self {
        let life = |bytes: &u64| vec![u64::from_ne_bytes([JUNK[0]; 8]); bytes.div_ceil(8) as usize];
        Self(log.lives.iter().map(life).collect())
    }

    fn address(&mut self, place: Place) -> *mut u8 {
        self.0[place.life]
            .as_mut_ptr()
            .cast::<u8>()
            .wrapping_add(place.offset as usize)
    }

    fn bytes(&mut self, place: Place, bytes: usize) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0[place.life])[place.offset as usize..][..bytes]
    }

    fn write(&mut self, to: Place, bytes: &[u8]) {
        self.bytes(to, bytes.len()).copy_from_slice(bytes);
    }

    /// Performs one call; returns false if the host sees other bytes than in the recorded run.
    fn perform(&mut self, call: &Call) -> bool {
        match call {
            Call::Alloc { life, .. } | Call::NoteAlloc { life, .. } => {
                bytemuck::cast_slice_mut(&mut self.0[*life]).fill(JUNK[0])
            }
            Call::Free { life, .. } | Call::NoteFree { life, .. } | Call::FreeManaged(life) => {
                bytemuck::cast_slice_mut(&mut self.0[*life]).fill(JUNK[1]);
            }
            Call::Copy { to, from, bytes, .. } | Call::CopyPeer { to, from, bytes, .. } => {
                let source = self.bytes(*from, *bytes).to_vec();
                self.write(*to, &source);
            }
            Call::CopyRows { to, from, extent, .. } => {
                for (to_row, from_row) in extent.rows(to.1).zip(extent.rows(from.1)) {
                    let row = |place: Place, offset: usize| Place {
                        offset: place.offset + offset as u64,
                        ..place
                    };
                    let source = self.bytes(row(from.0, from_row), extent.width_bytes).to_vec();
                    self.write(row(to.0, to_row), &source);
                }
            }
            Call::Fill {
                to, pattern, count, ..
            } => {
                let bytes = pattern.len() * count;
                self.bytes(*to, bytes)
                    .chunks_exact_mut(pattern.len())
                    .for_each(|chunk| chunk.copy_from_slice(pattern));
            }
            Call::Launch { launch, .. } => {
                let addresses: Vec<u64> = launch
                    .places()
                    .map(|place| self.address(place).expose_provenance() as u64)
                    .collect();
                let pointers = launch.pointers(&addresses);
                // SAFETY: there is one pointer for each parameter. The memory that they name
                // belongs to this value, and nothing else borrows it now.
                unsafe { (launch.kernel.simulate)(&launch.shape, pointers.as_ptr()) };
            }
            Call::HostWrote { to, bytes } => self.write(*to, bytes),
            Call::HostSees { from, bytes } | Call::HostReads { from, bytes } => {
                return self.bytes(*from, bytes.len()) == &bytes[..];
            }
            _ => {}
        }
        true
    }
}

/// Whether the host sees the same bytes if `second` runs as early as the order allows.
pub(crate) fn same_if_flipped(log: &Log, order: &Order, second: Option<Node>) -> bool {
    let mut memory = Memory::new(log);
    let running = |world: World| matches!(world, World::Devices);
    let flips = |world: World| second.filter(|node| order.nodes[*node].world() == world);
    let outer = second.filter(|node| running(order.nodes[*node].world()));
    let mut same = true;
    for node in order.flipped(|node| running(node.world()), outer) {
        match order.launched.get(&node) {
            Some(world) => {
                for inside in order.flipped(|node| node.world() == *world, flips(*world)) {
                    same &= memory.perform(&log.entries[order.nodes[inside].entry].call);
                }
            }
            None if order.nodes[node].acts() => {
                same &= memory.perform(&log.entries[order.nodes[node].entry].call)
            }
            None => {}
        }
    }
    same
}
