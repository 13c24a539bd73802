//! Attacks on `#[kernel]` by the names in its input.
#![forbid(unsafe_code)]
#![allow(dead_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1};
use device_std::prelude::*;

cuda_rt::streams! {
    Compute;
}

mod kernels {
    use super::*;

    /// Names that the macro once gave to the types of parameters. Resolved inside the kernel, the
    /// element would be the type of the next parameter, which is eight times as long.
    type Parameter2 = u8;
    type Element1 = u16;
    /// Names of the macro's own items.
    const SHARED_BYTES: u64 = 7;
    const KERNEL: u64 = 5;

    #[kernel]
    pub(super) fn overflow(i: Index1, mut out: PerThread<Parameter2>, wide: u64, element: Element1) {
        if let Some(out) = out.get_mut(i) {
            *out = (wide & !u64::from(element)) as _;
        }
    }

    #[kernel]
    pub(super) fn constants(i: Index1, mut out: PerThread<u64>) {
        if let Some(out) = out.get_mut(i) {
            *out = SHARED_BYTES * KERNEL;
        }
    }
}

#[test]
fn attack_write_past_a_buffer_by_naming_an_element_as_the_macro_does() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut buffer = compute.alloc_zeroed::<u8>(512).unwrap();
        kernels::overflow(&compute, Grid1::covering(64), &mut buffer[..64], u64::MAX, 0).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u8>(512).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!(host[..64], [255; 64]);
        assert_eq!(host[64..], [0; 448], "written past the end of the range");
    })
    .unwrap();
}

#[test]
fn attack_take_the_constants_of_the_macro_for_the_kernels_own() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut buffer = compute.alloc_zeroed::<u64>(8).unwrap();
        kernels::constants(&compute, Grid1::covering(8), &mut buffer).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u64>(8).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [35; 8]);
    })
    .unwrap();
}
