//! Events: order without a buffer.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Error};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;
use crate::pairs::for_each_pair;

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

/// The other device's stream begins its work after the event: once its work is done, the event is.
#[test]
fn events_order_streams_of_two_devices() {
    for_each_pair(|first, second| {
        let (left, right) = (
            first.stream::<Left<_>>().unwrap(),
            second.stream::<Right<_>>().unwrap(),
        );
        let mut slow = left.alloc_zeroed::<u8>(8 << 20).unwrap();
        for value in 0..8 {
            left.fill(&mut slow, value).unwrap();
        }
        let event = left.record_event().unwrap();
        right.wait_event_of_peer(&event).unwrap();
        let after = right.record_event().unwrap();
        after.synchronize().unwrap();
        assert!(event.query().unwrap(), "the wait was not made");
    });
}

/// Two simulated hosts exchange nothing. The wait is refused before a driver sees the handle of the
/// other host's stream.
#[test]
fn events_of_unrelated_devices_are_refused() {
    Device::simulated(SimConfig::new(), |first| {
        Device::simulated(SimConfig::new(), |second| {
            let event = first.stream::<Left<_>>().unwrap().record_event().unwrap();
            let right = second.stream::<Right<_>>().unwrap();
            let waits = || first.simulator().unwrap().counters().calls(Call::WaitEvent);
            let before = waits();
            let error = right.wait_event_of_peer(&event).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Driver {
                        during: "Stream::wait_event_of_peer",
                        ..
                    }
                ),
                "{error}"
            );
            assert_eq!(waits(), before, "no driver saw the stream");
        })
        .unwrap();
    })
    .unwrap();
}
