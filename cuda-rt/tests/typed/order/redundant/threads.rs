//! Threads that share streams.

use std::sync::mpsc;
use std::thread;

use cuda_rt::checker::Check;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Handoff};

use super::{First, LEN, Second, Third};
use crate::buffers::filled;

/// Each thread hands buffers over between the same three streams and passes some to the next
/// thread, in orders that differ from run to run. The checker sees the calls only.
#[test]
fn threads_that_share_streams_leave_out_no_edge_that_is_needed() {
    const THREADS: u32 = 3;
    for seed in 0..20 {
        let config = SimConfig::new()
            .seed(seed)
            .order(Order::Lazy)
            .check(Check::Record);
        Device::simulated(config, |gpu| {
            let (first, second, third) = (
                gpu.stream::<First<_>>().unwrap(),
                gpu.stream::<Second<_>>().unwrap(),
                gpu.stream::<Third<_>>().unwrap(),
            );
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
                .map(|_| mpsc::channel::<Handoff<DeviceBuffer<u32, _>>>())
                .unzip();
            thread::scope(|scope| {
                for (number, received) in receivers.into_iter().enumerate() {
                    let next = senders[(number + 1) % THREADS as usize].clone();
                    let (first, second, third) = (&first, &second, &third);
                    scope.spawn(move || {
                        let mut mine = first.release(filled(first, 1)).unwrap();
                        for round in 0..30_u32 {
                            let mut at = second.acquire(mine).unwrap();
                            if round % 2 == 0 {
                                second.fill(&mut at, round + 2).unwrap();
                            }
                            let mut at = third.acquire(second.release(at).unwrap()).unwrap();
                            if round % 3 == 0 {
                                third.fill(&mut at, round + 2).unwrap();
                            }
                            let mut at = first.acquire(third.release(at).unwrap()).unwrap();
                            first.fill(&mut at, round + 2).unwrap();
                            let away = first.release(at).unwrap();
                            if round % 4 == 0 {
                                assert!(away.is_done().is_ok());
                            }
                            next.send(away).unwrap();
                            mine = received.recv().unwrap();
                        }
                        let last = third.acquire(mine).unwrap();
                        assert_eq!(third.copy_to_vec(&last).unwrap(), [31; LEN]);
                    });
                }
                drop(senders);
            });
            assert!(gpu.races().is_empty(), "seed {seed}: {}", gpu.races()[0]);
        })
        .unwrap();
    }
}
