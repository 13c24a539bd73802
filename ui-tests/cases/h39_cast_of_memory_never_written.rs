// H39 (E0277): memory that nothing wrote is cast to memory that may be read.
// Twin: h39_read_of_memory_never_written
#![forbid(unsafe_code)]
use std::mem::MaybeUninit;

use cuda_rt::{DeviceBuffer, DeviceSlice, Error, Stream};

cuda_rt::streams! {
    Compute;
}

fn cast(compute: &Stream<Compute>, mine: &mut DeviceBuffer<f32, Compute>) -> Result<(), Error> {
    let memory: DeviceBuffer<MaybeUninit<f32>, Compute> = compute.alloc_uninit(8)?;
    let view: &DeviceSlice<f32, Compute> = DeviceSlice::cast(&memory)?;
    compute.copy(view, mine)?;
    let memory: DeviceBuffer<f32, Compute> = memory.cast()?;
    compute.copy(&memory, mine)
}

fn main() {}
