// H32 (E0502): a thread reads shared memory that its neighbour writes in the same phase.
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(block = 256)]
pub fn shift(mut block: Block, tile: BlockUninit<f32, 256>, input: &[f32], mut sums: PerBlock<f32>) {
    let mut tile = tile.init(&mut block, |t, _| input[t.position()]);
    let (view, each) = (tile.view(), tile.each_mut());
    block.threads(|t| each.set(t, view.slice(t)[255 - t.index()]));
    let first = block.broadcast(&tile, 0);
    sums.set(&block, first);
}

fn main() {}
