//! Attacks by a crate that defines its own `cuda_rt` and `device_std`, the names that procedural
//! macros write. It keeps the macros that it could not write without `unsafe`, and replaces
//! everything else that they could be made to use.
#![forbid(unsafe_code)]
#![allow(
    dead_code,
    missing_docs,
    reason = "what the user's crate must show as `cuda_rt` is public"
)]

extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate self as cuda_rt;
extern crate self as device_std;

use real::simulator::SimConfig;
use real::{Device, DeviceSlice, Grid1, Result, Stream, StreamTag};
use real::{DeviceBuffer, DeviceTag, Idle, Place};
use real_std::prelude::*;

pub use real::Bundle;
pub use real::{__block, __bundle, __kernel, __module, __parameters};
pub use real_std::__element;

real::streams! {
    Compute;
    Other;
}

// The simulated device reads no PTX.
real_std::kernel_module!("conformance/kernels.ptx");

/// The items that the expansion calls are real, or it does not build. All other items here are
/// fake.
pub mod kernel {
    pub use real::kernel::{
        ArgumentsOf, PositionOf, ReadArg, ReadBy, ReturnOf, Simulate, WriteArg, WriteBy, launch,
    };

    pub struct Slice<T>(T);
    pub struct Output<T>(T);
    pub struct Value<T>(T);
    pub struct Threads1;
    pub struct Kernel {
        pub simulate: fn(),
    }
}

/// The user's own `core`.
pub mod __private {
    pub mod core {
        pub use std::{assert, marker, mem, primitive};
    }
}

pub mod rt {
    pub use real_std::rt::{OutputArgument, SharedSum};

    pub fn element_layout<T>() -> u64 {
        7
    }
    pub fn slice<'a, T>(_: *const *const std::ffi::c_void, _: usize) -> &'a [T] {
        &[]
    }
    pub fn output<T>(_: *const *const std::ffi::c_void, _: usize) -> (*mut T, usize) {
        (std::ptr::dangling_mut(), 1 << 20)
    }
}

pub mod layout {
    pub struct Layout;

    impl Layout {
        pub const fn of<T>(_: &str) -> Self {
            Self
        }
        pub const fn field(self, _: &str, _: usize, _: u64) -> Self {
            self
        }
        pub const fn finish(self) -> u64 {
            7
        }
    }
}

#[kernel]
fn scale(i: Index1, input: &[u32], mut output: PerThread<u32>, factor: u32) {
    if let Some(output) = output.get_mut(i) {
        *output = input[i.get()] * factor;
    }
}

#[test]
fn attack_launch_in_a_crate_called_cuda_rt() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut input = compute.alloc_zeroed::<u32>(64).unwrap();
        compute.fill(&mut input, 7).unwrap();
        let mut output = compute.alloc_zeroed::<u32>(64).unwrap();
        scale(&compute, Grid1::covering(64), &input, &mut output[..16], 3).unwrap();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&output, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!((&host[..16], &host[16..]), (&[21; 16][..], &[0; 48][..]));
    })
    .unwrap();
}

#[derive(Clone, Copy, real::bytemuck::Pod, real::bytemuck::Zeroable, Element)]
#[repr(C)]
struct Pair {
    a: u32,
    b: f32,
}

#[test]
fn attack_hide_a_layout_behind_hashes_of_the_users() {
    let real = real_std::layout::Layout::of::<Pair>("struct")
        .field("a", 0, <u32 as real_std::Scalar>::LAYOUT)
        .field("b", 4, <f32 as real_std::Scalar>::LAYOUT)
        .finish();
    assert_eq!(<Pair as real_std::Scalar>::LAYOUT, real);
}

#[derive(real::Bundle)]
struct Buffers<P: Place = Idle> {
    buffer: DeviceBuffer<u32, P>,
}

#[test]
fn attack_bundle_in_a_crate_called_cuda_rt() {
    Device::simulated(SimConfig::default(), |gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let buffer = compute.alloc_zeroed::<u32>(8).unwrap();
        let bundle = other
            .acquire(compute.release(Buffers { buffer }).unwrap())
            .unwrap();
        drop(other.release(bundle).unwrap().synchronize().unwrap());
    })
    .unwrap();
}
