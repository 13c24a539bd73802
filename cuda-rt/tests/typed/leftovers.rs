//! Objects that remain on a simulated device after its last handle is dropped.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::simulator::{Order, SimConfig};

/// Runs `body` in several orders; `body` gets the device's last handle. Everything that it dropped
/// and did not leak must end with the device.
pub(crate) fn nothing_is_left(body: impl for<'id> Fn(Device<cuda_rt::Scoped<'id>>)) {
    let random = (0..12).map(|seed| SimConfig::default().seed(seed));
    for config in random.chain([SimConfig::default().order(Order::Lazy)]) {
        let simulator = Device::simulated(config, |gpu| {
            let simulator = gpu.simulator().unwrap().clone();
            body(gpu);
            simulator
        })
        .unwrap();
        let left = simulator.counters();
        let live = [
            left.streams_live,
            left.events_live,
            left.graphs_live,
            left.allocations_live,
            left.registrations_live,
            left.managed_live,
        ];
        assert_eq!(
            live, [0; 6],
            "streams, events, graphs, allocations, registrations, managed memory"
        );
    }
}
