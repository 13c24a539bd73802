//! A simulated kernel's body runs where the host asks for work. It may drop a buffer there, and
//! must not wait for a lock that its own thread holds. Each test would hang.

use std::cell::RefCell;

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Gpu, Grid1, Idle, PinnedBuffer};
use device_std::prelude::*;

device_std::kernel_module!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/conformance/kernels.ptx"
));
cuda_rt::streams! { Compute; }

thread_local! {
    static PINNED: RefCell<Option<PinnedBuffer<u32, Idle<Gpu<0>>>>> = const { RefCell::new(None) };
    static BUFFER: RefCell<Option<DeviceBuffer<u32, Idle<Gpu<0>>>>> = const { RefCell::new(None) };
}

#[kernel]
fn dropping(i: Index1, output: PerThread<u32>) {
    output.set(i, 1);
    drop(PINNED.take());
    drop(BUFFER.take());
}

/// GPU 0, simulated, whose work runs as late as it may. `None` if there is a GPU, where no kernel's
/// body runs on the host.
fn device() -> Option<Device> {
    let gpu = Device::open_or_simulate_with(SimConfig::new().order(Order::Lazy)).unwrap();
    let found = gpu.is_simulated().then_some(gpu);
    if found.is_none() {
        println!("SKIPPED: there is a GPU");
    }
    found
}

#[test]
fn a_kernel_drops_pinned_memory_where_the_host_asks_for_pinned_memory() {
    let Some(gpu) = device() else { return };
    let compute = gpu.stream::<Compute>().unwrap();
    PINNED.set(Some(gpu.pinned(4).unwrap()));
    let mut output = compute.alloc_zeroed::<u32>(1).unwrap();
    let mut host = compute.adopt(gpu.pinned::<u32>(1).unwrap()).unwrap();
    dropping(&compute, Grid1::covering(1), &mut output).unwrap();
    compute.copy_to_host(&output, &mut host).unwrap();
    drop(host); // its last use is pending
    while PINNED.with(|pinned| pinned.borrow().is_some()) {
        std::mem::forget(gpu.pinned::<u32>(1));
    }
}

#[test]
fn a_kernel_drops_device_memory_where_the_host_asks_for_device_memory() {
    let Some(gpu) = device() else { return };
    let compute = gpu.stream::<Compute>().unwrap();
    gpu.set_release_threshold(1 << 30).unwrap();
    let idle = compute.release(compute.alloc_zeroed(4).unwrap()).unwrap();
    BUFFER.set(Some(idle.synchronize().unwrap()));
    let mut output = compute.alloc_zeroed::<u32>(1).unwrap();
    dropping(&compute, Grid1::covering(1), &mut output).unwrap();
    drop(compute.release(output).unwrap()); // its last use is pending
    while BUFFER.with(|buffer| buffer.borrow().is_some()) {
        std::mem::forget(compute.alloc_uninit::<u32>(1));
    }
}
