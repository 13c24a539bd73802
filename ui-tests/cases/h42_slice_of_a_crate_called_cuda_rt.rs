// H42 (E0308): `#[kernel]` names `::cuda_rt`, which is this program, and is passed its slice for
// memory that is in use.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
extern crate cuda_rt as real;
extern crate self as cuda_rt;

use std::marker::PhantomData;

use device_std::prelude::*;
use real::Device;
pub use real::{__block, __kernel, __module, __parameters, Grid1, Result, Stream, StreamTag, kernel};

real::streams! {
    Compute;
}

device_std::kernel_module!("none.ptx");

pub struct DeviceSlice<T, P>(u64, PhantomData<(T, P)>);

impl<T, P> DeviceSlice<T, P> {
    pub fn address(&self) -> real::driver::DeviceAddress {
        real::driver::DeviceAddress(self.0)
    }
    pub fn len(&self) -> usize {
        1 << 20
    }
}

#[device_std::kernel]
pub fn count(i: Index1, mut output: PerThread<u32>) {
    if let Some(output) = output.get_mut(i) {
        *output = 1;
    }
}

fn main() -> Result<()> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let buffer = compute.alloc_zeroed::<u32>(8)?;
    let mut forged = DeviceSlice::<u32, Compute>(buffer.address().0, PhantomData);
    count(&compute, Grid1::covering(8), &mut forged)?;
    drop(buffer);
    Ok(())
}
