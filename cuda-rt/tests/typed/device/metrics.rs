//! The figures of a device follow what a program allocates, records and waits for.

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Priority};

cuda_rt::streams! {
    One;
    Two;
}

const LEN: usize = 1 << 20;

#[test]
fn figures_of_memory_follow_its_allocations() {
    Device::simulated(SimConfig::new(), |gpu| {
        let one = gpu.stream::<One<_>>().unwrap();
        let before = gpu.metrics().unwrap();
        assert_eq!((before.device_kept.blocks, before.device_kept.bytes), (0, 0));

        let buffers = [(); 3].map(|()| one.alloc_zeroed::<u8>(LEN).unwrap());
        let pinned = gpu.pinned::<u8>(LEN).unwrap();
        let during = gpu.metrics().unwrap();
        assert_eq!(during.device_pool.used_bytes, 3 * LEN as u64);
        assert_eq!(during.device_pool, gpu.memory_pool_stats().unwrap());
        assert_eq!(during.device_kept.blocks, 0);
        assert_eq!(
            (during.pinned_pool.bytes_held, during.pinned_pool.bytes_free),
            (LEN, 0)
        );

        drop((buffers, pinned));
        let kept = gpu.metrics().unwrap();
        assert_eq!(kept.device_pool.used_bytes, 0);
        assert_eq!((kept.device_kept.blocks, kept.device_kept.bytes), (3, 3 * LEN));
        assert_eq!(kept.pinned_pool.bytes_free, LEN);
        drop((
            gpu.managed::<u8>(LEN).unwrap(),
            gpu.write_combined::<u8>(LEN).unwrap(),
        ));
        let kept = gpu.metrics().unwrap();
        assert_eq!((kept.managed_kept.blocks, kept.managed_kept.bytes), (1, LEN));
        let write_combined = kept.write_combined_kept;
        assert_eq!((write_combined.blocks, write_combined.bytes), (1, LEN));

        one.synchronize().unwrap();
        gpu.trim(0).unwrap();
        gpu.trim_pinned(0);
        gpu.trim_managed();
        let after = gpu.metrics().unwrap();
        assert_eq!(after.device_kept, before.device_kept);
        assert_eq!(after.managed_kept, before.managed_kept);
        assert_eq!(
            (after.device_pool.reserved_bytes, after.pinned_pool.bytes_held),
            (0, 0)
        );
        assert_eq!(after.device_pool.used_peak_bytes, 3 * LEN as u64);
    })
    .unwrap();
}

/// CUDA's own counts are those of the simulated device.
#[test]
fn figures_of_streams_and_events_are_the_devices_own() {
    Device::simulated(SimConfig::new(), |gpu| {
        let counters = || gpu.simulator().unwrap().counters();
        let compare = |during: &str| {
            let (figures, counted) = (gpu.metrics().unwrap(), counters());
            assert_eq!(figures.streams.live, counted.streams_live, "{during}");
            assert_eq!(figures.events.live, counted.events_live, "{during}");
            assert_eq!(
                figures.events.records,
                counted.calls(Call::RecordEvent),
                "{during}"
            );
            figures
        };
        assert_eq!(compare("at first").events.leased(), 0);
        let (one, two) = (gpu.stream::<One<_>>().unwrap(), gpu.stream::<Two<_>>().unwrap());
        let pool = gpu.stream_pool(2).unwrap();
        let of_run_time = gpu.create_stream("run time", Priority::Normal).unwrap();
        assert_eq!(compare("streams").streams.idle, 0);
        drop(of_run_time);
        assert_eq!(compare("a stream that was returned").streams.idle, 1);

        let handoffs: Vec<_> = (0..5)
            .map(|_| one.release(one.alloc_zeroed::<u32>(64).unwrap()).unwrap())
            .collect();
        let timed = two.record_timed_event().unwrap();
        let during = compare("five handoffs and a time");
        assert_eq!((during.events.leased(), during.events.idle), (6, 0));
        for handoff in handoffs {
            one.acquire(handoff).unwrap();
        }
        timed.synchronize().unwrap();
        pool.with(|s| s.synchronize()).unwrap();
        let after = compare("their ends");
        assert_eq!((after.events.leased(), after.events.idle), (0, 6));
        let waits = counters().calls(Call::SynchronizeEvent) + counters().calls(Call::SynchronizeStream);
        // One of them was inside the allocation of each block, on the stream for allocations.
        let inside = counters().calls(Call::Alloc);
        assert_eq!(after.host_waits, waits - inside);
    })
    .unwrap();
}

#[test]
fn figures_of_more_handoffs_than_a_stream_has_events_are_right() {
    Device::simulated(SimConfig::new(), |gpu| {
        let one = gpu.stream::<One<_>>().unwrap();
        let handoffs: Vec<_> = (0..200)
            .map(|_| one.release(one.alloc_zeroed::<u32>(64).unwrap()).unwrap())
            .collect();
        let figures = gpu.metrics().unwrap();
        let counted = gpu.simulator().unwrap().counters();
        assert_eq!(figures.events.live, counted.events_live);
        assert_eq!(figures.events.leased(), 200);
        assert_eq!(figures.events.records, counted.calls(Call::RecordEvent));
        drop(handoffs);
    })
    .unwrap();
}

#[test]
fn a_lost_device_has_no_figures() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        simulator.fail_next(Call::SynchronizeStream, ErrorCode::LAUNCH_FAILED);
        assert!(gpu.synchronize().is_err());
        let error = gpu.metrics().unwrap_err();
        assert!(
            error.is_sticky() && error.to_string().starts_with("Device::metrics: "),
            "{error}"
        );
    })
    .unwrap();
}
