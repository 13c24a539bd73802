//! Attacks on `#[kernel]` by the user's traits: their methods have the names of the library's
//! methods, and are found first.
#![forbid(unsafe_code)]
#![allow(dead_code)]

use cuda_rt::driver::DeviceAddress;
use cuda_rt::kernel::LaunchShape;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceSlice, Grid1, GridError};
use device_std::prelude::*;

cuda_rt::streams! {
    Compute;
}

/// A method that takes `self` by value on `&mut DeviceSlice` is found before a method that takes
/// `&self` on `DeviceSlice`.
trait Slice: Sized {
    fn address(self) -> DeviceAddress {
        DeviceAddress(8)
    }
    fn len(self) -> usize {
        1 << 40
    }
}

impl<T, P> Slice for &mut DeviceSlice<T, P> {}

/// A method on `Grid1` is found before a method on `&Grid1`: here each thread would be launched
/// twice.
trait Shape: Sized {
    fn __shape(self, _: Option<[u32; 3]>, shared_bytes: usize) -> Result<LaunchShape, GridError> {
        let mut shape = Grid1::__shape(&Grid1::covering(16), None, shared_bytes)?;
        shape.extent.x *= 4;
        Ok(shape)
    }
}

impl Shape for Grid1 {}

/// The same attack on the types that simulate a launch.
trait Start: Sized {
    fn start(self) -> *mut u8 {
        std::ptr::without_provenance_mut(16)
    }
}

impl Start for device_std::rt::SharedMemory {}

trait Length: Sized {
    fn extent(self) -> device_std::Extent {
        device_std::Extent {
            x: 1 << 20,
            y: 1,
            z: 1,
        }
    }
}

impl Length for device_std::rt::SimulatedLaunch {}

#[kernel]
fn count(i: Index1, mut out: PerThread<u32>) {
    if let Some(out) = out.get_mut(i) {
        *out += 1;
    }
}

#[kernel(block = 32)]
fn first(mut block: Block, tile: BlockUninit<u32, 32>, mut out: PerBlock<u32>) {
    let tile = tile.init(&mut block, |t, _| 7 + t.index() as u32);
    let value = block.broadcast(&tile, 0);
    out.set(&block, value);
}

#[test]
fn attack_launch_with_the_users_own_addresses_lengths_and_grid() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut buffer = compute.alloc_zeroed::<u32>(64).unwrap();
        count(&compute, Grid1::covering(16), &mut buffer).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!((&host[..16], &host[16..]), (&[1; 16][..], &[0; 48][..]));
    })
    .unwrap();
}

#[test]
fn attack_simulate_with_the_users_own_shared_memory() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut buffer = compute.alloc_zeroed::<u32>(4).unwrap();
        first(&compute, Grid1::covering(128), &mut buffer).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(4).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [7; 4]);
    })
    .unwrap();
}
