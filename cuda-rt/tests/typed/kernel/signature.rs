//! Compares the host's layout tables with the tables that the device build left in the PTX. (A
//! GPU's driver compares them at a kernel's first launch.)

use cuda_rt::kernel::{ArgumentsOf, PositionOf, Signature, Simulate};
use device_std::prelude::*;
use device_std::ptx;

const PTX: &str = include_str!("../../../../device-kernels/ptx/device_kernels.ptx");

device_std::kernel_module!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../device-kernels/ptx/device_kernels.ptx"
));

type Floats<'k> = PerThread<'k, f32>;

type Tiles<'k> = PerThreadTile<'k, f32, 4, 4>;

type Counts<'k> = Atomic<'k, u32>;

type Bins<'k> = BlockUninit<'k, u32, 2048>;

type Tile<'k> = BlockUninit<'k, [f32; 4], 1024>;

cuda_rt::__kernel! {
    Scale, "scale", c"scale", crate::kernel::signature::__CUDA_RT_MODULE, Threads1,
    block = [], slices = [0: f32;], outputs = [1: Floats, f32;], shared = [], values = [2: f32;],
    parameters = [Slice 0; Output 1; Value 2;],
}

cuda_rt::__kernel! {
    Histogram, "histogram", c"histogram", crate::kernel::signature::__CUDA_RT_MODULE, Blocks<OneD>,
    block = [256, 1], slices = [1: u8;], outputs = [2: Counts, u32;], shared = [0: Bins;], values = [],
    parameters = [SharedArg 0; Slice 1; AtomicOutput 2;],
}

cuda_rt::__kernel! {
    Transpose, "transpose", c"transpose", crate::kernel::signature::__CUDA_RT_MODULE, Blocks<TwoD>,
    block = [64, 4], slices = [1: f32;], outputs = [2: Tiles, f32;], shared = [0: Tile;],
    values = [3: u32; 4: u32;],
    parameters = [SharedArg 0; Slice 1; Output 2; Value 3; Value 4;],
}

/// This test launches nothing.
macro_rules! not_simulated {
    ($($kernel:ident)*) => { $(
        impl Simulate for $kernel {
            fn call<'k>(_: PositionOf<'k, Self>, _: ArgumentsOf<'k, Self>) {}
        }
    )* };
}

not_simulated!(Scale Histogram Transpose);

#[test]
fn the_host_has_the_tables_of_the_ptx() {
    for (name, layout) in [
        ("scale__", Scale::kernel().layout),
        ("histogram__", Histogram::kernel().layout),
        ("transpose__", Transpose::kernel().layout),
    ] {
        let entries = ptx::entries(PTX);
        // A generic kernel has an entry for each instance.
        let instances = entries.iter().filter(|entry| entry.starts_with(name));
        let tables: Vec<_> = instances.map(|symbol| ptx::layout_table(PTX, symbol)).collect();
        assert!(!tables.is_empty(), "{name}");
        assert!(
            tables.iter().any(|table| table.as_deref() == Some(layout)),
            "{name}: {tables:?}"
        );
    }
}
