//! Kernels that return the elements of their output.

use device_std::prelude::*;
use device_std::{Private, Sum};
use half::f16;

/// A sum of two elements, in a launch of one dimension.
#[kernel]
pub fn return_sum(i: Index1, a: &[f32], b: &[f32]) -> f32 {
    a[i.get()] + b[i.get()]
}

/// An element of one byte, and a second output that the same thread writes.
#[kernel(block = 96)]
pub fn return_low_byte(i: Index1, input: &[u32], mut high: PerThread<u32>, shift: u32) -> u8 {
    let value = input[i.get()];
    if let Some(high) = high.get_mut(i) {
        *high = value >> shift;
    }
    value as u8
}

/// Where the thread is, in a launch of two dimensions.
#[kernel]
pub fn return_of_plane(i: Index2) -> u64 {
    (i.y() as u64) << 32 | i.x() as u64
}

/// An element of three numbers. An array behind an alias is one element, and no chunk.
pub type Triple = [u32; 3];

/// Where the thread is, in a launch of three dimensions.
#[kernel]
pub fn return_of_volume(i: Index3) -> Triple {
    [i.x() as u32, i.y() as u32, i.z() as u32]
}

macro_rules! chunks {
    ($($name:ident: $type:ident, $count:literal, $fill:expr;)*) => { $(
        /// The thread's elements of the input, in reverse order.
        #[kernel]
        pub fn $name(i: Index1, input: &[$type]) -> [$type; $count] {
            let mut values: [$type; $count] = input.chunk_or(i.get(), $fill);
            values.reverse();
            values
        }
    )* };
}

chunks! {
    return_chunk_f32x4: f32, 4, 0.5;
    return_chunk_u8x16: u8, 16, 9;
    return_chunk_u16x3: u16, 3, 9;
    return_chunk_f16x8: f16, 8, f16::ONE;
}

/// The sum of each block's elements.
#[kernel(block = 96)]
pub fn return_of_block(mut block: Block, mut scratch: BlockUninit<u32, 3>, input: &[u32]) -> u32 {
    let value = block.map(|lane| input.get(lane.position()).copied().unwrap_or(0));
    block.reduce::<Sum, _, 3>(&mut scratch, &value)
}

/// Two elements for each block of a plane: its position.
#[kernel(block = (8, 4))]
pub fn return_chunk_of_block(block: Block2) -> [u32; 2] {
    [block.x() as u32, block.y() as u32]
}

/// Each thread's value in reverse order within its block, through shared memory.
#[kernel(block = 64)]
pub fn return_of_threads(mut block: Block, tile: BlockUninit<u32, 64>, input: &[u32]) -> Private<u32> {
    let tile = tile.init(&mut block, |thread, _| {
        input.get(thread.position()).copied().unwrap_or(7)
    });
    let tile = tile.view();
    block.map_shared(|thread| tile.slice(thread)[63 - thread.index()])
}

/// Where each thread of a plane's blocks is.
#[kernel(block = (32, 4))]
pub fn return_of_threads_of_plane(mut block: Block2) -> Private<[u32; 2]> {
    block.map(|lane| {
        let (x, y) = lane.position();
        [x as u32, y as u32]
    })
}
