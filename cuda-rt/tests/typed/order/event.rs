//! Events: order without a buffer.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::simulator::SimConfig;

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Left;
    Right;
    Compute, priority = High;
}

/// An event makes another stream wait, though no buffer moves. The modelled time and the bytes show
/// it.
#[test]
fn events_order_streams() {
    for_each_device(|gpu| {
        let (left, right) = (
            gpu.stream::<Left<_>>().unwrap(),
            gpu.stream::<Right<_>>().unwrap(),
        );
        let mut slow = left.alloc_zeroed::<u8>(8 << 20).unwrap();
        for value in 0..8 {
            left.fill(&mut slow, value).unwrap();
        }
        let before = left.record_timed_event().unwrap();
        let event = left.record_event().unwrap();
        right.wait_event(&event).unwrap();
        left.wait_event(&event).unwrap();
        let after = right.record_timed_event().unwrap();
        let after = after.synchronize().unwrap();
        assert!(event.query().unwrap());
        event.synchronize().unwrap();
        let elapsed = after.elapsed_ms_since(&before.synchronize().unwrap()).unwrap();
        assert!(elapsed >= 0.0, "{elapsed}");
    });
}

/// The same inside a capture. If the event made no edge, the lazy order would show it.
#[test]
fn events_order_streams_inside_a_capture() {
    for seed in 0..12 {
        Device::simulated(SimConfig::new().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let bundle = (filled(&compute, 0), filled(&compute, 0));
            let mut graph = compute
                .capture(bundle, |stream, (mut a, mut b)| {
                    let side = stream.fork::<Left<_>>()?;
                    stream.fill(&mut a, 1)?;
                    let event = stream.record_event()?;
                    side.wait_event(&event)?;
                    stream.fill(&mut b, 2)?;
                    Ok(())
                })
                .unwrap();
            graph.launch(&compute).unwrap();
            let (a, b) = graph.into_inner();
            assert_eq!(read(&gpu, &compute, &a), [1; LEN]);
            assert_eq!(read(&gpu, &compute, &b), [2; LEN]);
        })
        .unwrap();
    }
}
