use device_std::prelude::*;

device_std::kernel_module!("../../ptx/device_kernels.ptx");

/// Blocks with an even number take tiles from the one, and the others from the other.
#[kernel(block = 32)]
fn kernel(
    mut block: Block,
    mut seen: BlockUninit<[u32; 3], 1>,
    even: LookBack<u64>,
    odd: LookBack<u64>,
    output: PerTile<u32, 1, 1>,
) {
    let tiles = if block.x() % 2 == 0 { even } else { odd };
    let (_, (), tile) = tiles.scan::<device_std::Sum, u32, _, _, 1>(&mut block, &mut seen, |_, _| (1, ()));
    block.threads(|thread| output.set(&tile, thread, [[1]]));
}

fn main() {}
