// H42 (E0080): a crate with an `assert!` of its own has a kernel with more shared memory than a block has.
#![forbid(unsafe_code)]
use device_std::prelude::*;
macro_rules! assert {
    ($($anything:tt)*) => { () };
}
device_std::kernel_module!("none.ptx");
#[kernel(block = 32)]
pub fn large(mut block: Block, tile: BlockUninit<f32, 16384>, mut out: PerBlock<f32>) {}
