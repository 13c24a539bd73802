//! Runs the operations of a log one after another in an order that is given, on plain memory of its
//! own: no streams, no events, no addresses given out twice.
//!
//! Shares nothing with the simulated device. Says whether two operations that race would give the
//! host other bytes if the one that was called later ran first.

use crate::log::{Call, Log, Place};
use crate::order::{Node, Order, World};

/// What memory holds that no one has written, and what it holds when it is freed.
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

    /// Does what one call does; false if the host sees other bytes than it did.
    fn perform(&mut self, call: &Call) -> bool {
        match call {
            Call::Alloc { life, .. } => bytemuck::cast_slice_mut(&mut self.0[*life]).fill(JUNK[0]),
            Call::Free { life, .. } => bytemuck::cast_slice_mut(&mut self.0[*life]).fill(JUNK[1]),
            Call::Copy { to, from, bytes, .. } => {
                let source = self.bytes(*from, *bytes).to_vec();
                self.write(*to, &source);
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
                // SAFETY: one pointer for each parameter, and the memory that they name is this
                // value's, of which nothing else is borrowed now.
                unsafe { (launch.kernel.simulate)(&launch.shape, pointers.as_ptr()) };
            }
            Call::HostWrote { to, bytes } => self.write(*to, bytes),
            Call::HostSees { from, bytes } => return self.bytes(*from, bytes.len()) == &bytes[..],
            _ => {}
        }
        true
    }
}

/// Whether the host sees what it saw when `second` runs before all that it need not come after.
pub(crate) fn same_if_flipped(log: &Log, order: &Order, second: Option<Node>) -> bool {
    let mut memory = Memory::new(log);
    let running = |world: World| matches!(world, World::Device(_));
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
