// H42 (E0080): a crate with an `assert!` of its own has a kernel with more shared memory than a
// block has.
#![forbid(unsafe_code)]
use device_std::prelude::*;
macro_rules! assert {
    ($($anything:tt)*) => { () };
}
device_std::kernel_module!("none.ptx");
#[kernel(block = 32)]
// Each array fits, for which the library asks by itself; the two together do not.
pub fn large(
    mut block: Block,
    tile: BlockUninit<f32, 32768>,
    other: BlockUninit<f32, 32768>,
    mut out: PerBlock<f32>,
) {
}
