//! Rows of warps and blocks, and scans of all blocks.

use device_std::prelude::*;
use device_std::{LookBack, Operator, PerRow, PerTile};

/// 10 · the element's position, plus the step in which a thread of its row writes it.
#[kernel(block = 128, instances = [32, 128])]
pub fn rows<const THREADS: usize>(mut block: Block, output: PerRow<u32, 4, THREADS>, width: u32) {
    let rows = output.rows(&block, width as usize);
    block.threads(|thread| {
        for step in 0..rows.steps() {
            let place = rows.place(thread, step);
            let first = place.row * rows.width() + place.column;
            let number = |q: usize| ((first + q * place.stride) * 10 + step) as u32;
            match rows.chunk(thread, step) {
                Some(_) => rows.set_chunk(thread, step, core::array::from_fn(number)),
                None => rows.set(thread, step, core::array::from_fn(number)),
            }
        }
    });
}

/// The functions x → a · x + b, one after the other: an operator whose order matters.
pub enum Then {}

impl Operator<[u32; 2]> for Then {
    const IDENTITY: [u32; 2] = [1, 0];
    fn combine([a, b]: [u32; 2], [c, d]: [u32; 2]) -> [u32; 2] {
        [a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d)]
    }
}

/// The functions up to each element, one after the other.
#[kernel(block = 64)]
pub fn one_after_the_other(
    mut block: Block,
    mut scratch: BlockUninit<[u32; 2], 2>,
    mut seen: BlockUninit<[u32; 3], 2>,
    input: &[[u32; 2]],
    look_back: LookBack<u64>,
    output: PerTile<[u32; 2], 2, 1>,
) {
    let (before, (pairs, up_to), tile) =
        look_back.scan::<Then, [u32; 2], _, _, 2>(&mut block, &mut seen, |block, tile| {
            let function = |at: usize| input.get(at).copied().unwrap_or([1, 0]);
            let pairs = block.map(|lane| {
                let first = tile.position::<2, 1>(lane, 0);
                [function(first), function(first + 1)]
            });
            let both = block.map(|lane| {
                let [first, second] = pairs.get(lane);
                Then::combine(first, second)
            });
            let (up_to, all) = block.exclusive_scan::<Then, _, 2>(&mut scratch, &both);
            (all, (pairs, up_to))
        });
    block.threads(|thread| {
        let before = Then::combine(before, up_to.get(thread));
        let [first, second] = pairs.get(thread);
        let first = Then::combine(before, first);
        output.set(&tile, thread, [[first, Then::combine(first, second)]]);
    });
}

/// The sum of the block's numbers before the block's own tile, of 64 bits. A tile is a block's
/// number of threads.
#[kernel(block = 32)]
pub fn before_each_tile(
    mut block: Block,
    mut seen: BlockUninit<[u32; 3], 1>,
    input: &[u64],
    look_back: LookBack<u64>,
    output: PerTile<u64, 1, 1>,
) {
    let (before, (), tile) =
        look_back.scan::<device_std::Sum, u64, _, _, 1>(&mut block, &mut seen, |_, tile| {
            (input.get(tile.number()).copied().unwrap_or(0), ())
        });
    block.threads(|thread| output.set(&tile, thread, [[before]]));
}
