//! Attacks by calls that unwind around launches of foreign kernels: the module of a pending launch
//! must not be unloaded.

use std::time::{Duration, Instant};

use cuda_rt::checker::Check;
use cuda_rt::driver::DeviceAddress;
use cuda_rt::interop::{Adopted, ForeignGrid, ForeignModule};
use cuda_rt::simulator::{Call, Order, SimConfig, SimDriver};
use cuda_rt::{Device, DeviceSlice, Result, Stream, StreamTag};

use crate::driver::{ALL, Plan, Unwinding, until_unwound};

cuda_rt::streams! { Compute; }

const PTX: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry f(.param .u64 y) { ret; }\n";

cuda_rt::foreign_kernel! {
    /// Writes `y`.
    unsafe fn f(y: &mut [u32]) as F;
}

const GRID: ForeignGrid = ForeignGrid::new([1; 3], [1; 3]);

/// # Safety
/// As for [`DeviceSlice::from_raw_parts_mut`].
unsafe fn slice_of<'a, S: StreamTag>(
    _: &Stream<S>,
    address: DeviceAddress,
    len: usize,
) -> &'a mut DeviceSlice<u32, S> {
    // SAFETY: this function's contract.
    unsafe { DeviceSlice::from_raw_parts_mut(address, len) }
}

/// Two launches, of which a call breaks its contract, on a stream of the device or on an adopted
/// one. Then the last handle of the module is dropped.
fn attack(adopted: bool, arm: impl FnOnce(&Plan)) {
    let plan = Plan::default();
    let config = SimConfig::new().order(Order::Lazy).check(Check::Record);
    let driver = Unwinding::over(SimDriver::new(config), &plan);
    Device::with_driver(driver, |gpu| {
        let simulator = gpu.simulator().unwrap();
        let load = || {
            let module = ForeignModule::load(&gpu, PTX).unwrap();
            module.stand_in::<F>(|_, (y,)| y.fill(3))
        };
        let f = load().get::<F>().unwrap();
        let other = load();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut y = compute.alloc_zeroed::<u32>(16).unwrap();
        compute.synchronize().unwrap();
        let (address, len) = (y.address(), y.len());
        let theirs = gpu.driver().create_stream(0).unwrap();
        arm(&plan);
        let launched = until_unwound(|| -> Result<()> {
            for _ in 0..2 {
                if !adopted {
                    f.launch(&compute, GRID, &mut y)?;
                    continue;
                }
                let launch = |stream: &Stream<Adopted<'_, _>>| {
                    // SAFETY: the memory lives until the end of the device, and nothing else uses
                    // it.
                    let y = unsafe { slice_of(stream, address, len) };
                    f.launch(stream, GRID, y)
                };
                // SAFETY: the stream is live, of this device, and not captured.
                unsafe { gpu.adopt_stream(theirs, launch) }?;
            }
            Ok(())
        });
        plan.count();
        drop(f);
        // The thread for closures unloads one module after another.
        drop(other);
        let begun = Instant::now();
        while simulator.counters().calls(Call::UnloadModule) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "never unloaded");
            std::thread::yield_now();
        }
        // A kernel that runs after its module was unloaded loses the simulated device.
        // SAFETY: the stream is live.
        let pending = unsafe { gpu.driver().synchronize_stream(theirs) };
        let pending = pending.map_err(|error| error.to_string());
        let pending = pending.and(gpu.synchronize().map_err(|error| error.to_string()));
        assert!(pending.is_ok(), "{pending:?}, the launches: {launched:?}");
        // The device frees the memory behind the work of `compute` only.
        drop(y);
    })
    .unwrap();
}

#[test]
fn a_module_is_not_unloaded_under_its_launch_where_a_call_unwinds() {
    for adopted in [false, true] {
        for (method, nth) in [
            ("launch_function", 1),
            ("launch_function", 2),
            ("record_event", 1),
            ("record_event", 2),
            ("query_event", 1),
        ] {
            for when in ALL {
                eprintln!("{method} {nth} {when:?}, adopted: {adopted}");
                attack(adopted, |plan| plan.arm_here(method, nth, when));
            }
        }
    }
}
