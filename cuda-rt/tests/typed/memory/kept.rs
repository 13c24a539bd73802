//! Bundles that streams keep: what the host sees of them, and their end.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{AnyDevice, Bundle, Device, DeviceBuffer, Error, Idle, Kept, PinnedBuffer, Place, Priority};
use static_assertions::assert_impl_all;

use crate::buffers::{LEN, filled};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

assert_impl_all!(Kept<DeviceBuffer<u32, Idle<AnyDevice>>>: Send, Sync);
assert_impl_all!(cuda_rt::AnyStream: Send, Sync, Clone);
assert_impl_all!(AnyDevice: Send, Sync, Clone);
assert_impl_all!(cuda_rt::KeptGraph<DeviceBuffer<u32, Idle<AnyDevice>>>: Send);

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u32, P>,
    copies: Vec<PinnedBuffer<u32, P>>,
    spare: Option<DeviceBuffer<u32, P>>,
    #[bundle(plain)]
    shape: [usize; 2],
}

#[test]
fn a_derived_bundle_is_kept_and_read_by_the_host() {
    for_each_device(|gpu| {
        let stream = gpu.create_stream("frames", Priority::Low).unwrap();
        let mut kept: Kept<Frame<Idle<AnyDevice>>> = stream.run(|s| {
            let copies = (0..2)
                .map(|_| s.adopt(s.device().pinned(LEN).unwrap()).unwrap())
                .collect();
            s.keep(Frame {
                pixels: filled(s, 6),
                copies,
                spare: Some(filled(s, 0)),
                shape: [8, 8],
            })
        });
        assert_eq!(kept.peek().shape, [8, 8]);
        for round in 0..3 {
            stream.run(|s| {
                let mut frame = s.view(&mut kept).unwrap();
                s.copy_to_host(&frame.pixels, &mut frame.copies[round % 2])
                    .unwrap();
                s.fill(&mut frame.pixels, round as u32).unwrap();
            });
            let value = match round {
                0 => 6,
                _ => round as u32 - 1,
            };
            kept.host(|mut frame| {
                let copy = frame.copies[round % 2].as_mut_slice();
                assert_eq!(copy, [value; LEN]);
                copy.fill(0);
            })
            .unwrap();
        }
        let frame = stream.run(|s| {
            let Frame { pixels, spare, .. } = s.open(kept).unwrap();
            s.keep((pixels, spare.unwrap()))
        });
        assert_eq!(frame.peek().1.len(), LEN);
        assert_eq!(gpu.races().len(), 0);
    });
}

/// H13: a failed wait is not a finished wait. The host sees nothing.
#[test]
fn h13_the_host_gets_no_views_where_its_wait_fails() {
    for call in [Call::RecordEvent, Call::SynchronizeEvent] {
        Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let stream = gpu.create_stream("downloads", Priority::Low).unwrap();
            let mut kept = stream.run(|s| {
                let mut host = s.adopt(s.device().pinned::<u32>(LEN).unwrap()).unwrap();
                s.copy_to_host(&filled(s, 3), &mut host).unwrap();
                s.keep(host)
            });
            let simulator = gpu.simulator().unwrap();
            simulator.fail_next(call, ErrorCode::OUT_OF_MEMORY);
            let error = kept.host(|_| panic!("the download may be pending")).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Driver {
                        during: "Kept::host",
                        ..
                    }
                ),
                "{error}"
            );
            simulator.clear_faults();
            kept.host(|host| assert_eq!(host.as_slice(), [3; LEN])).unwrap();
            assert_eq!(gpu.races().len(), 0);
        })
        .unwrap();
    }
}

/// H21: freed in the order of its stream, behind its uses, with no event.
#[test]
fn h21_a_kept_bundle_is_freed_in_the_order_of_its_stream() {
    nothing_is_left(|gpu| {
        let stream = gpu.create_stream("worker", Priority::Low).unwrap();
        let calls = |call| gpu.simulator().unwrap().counters().calls(call);
        let all_frees = || gpu.simulator().unwrap().counters().frees();
        let (events, frees) = (calls(Call::RecordEvent), all_frees());
        for value in 0..20 {
            drop(stream.run(|s| s.keep((filled(s, value), filled(s, value)))));
        }
        assert_eq!(calls(Call::RecordEvent), events);
        assert_eq!(all_frees(), frees + 40);
        // A bundle that outlives all other handles of its stream and device.
        let kept = stream.run(|s| s.keep(filled(s, 1)));
        assert_eq!(gpu.races().len(), 0);
        drop(gpu);
        drop(stream);
        drop(kept);
    });
}
