//! Pools of streams: turns, panics, priorities.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::{Error, Handoff, Priority};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
}

/// A closure that only enqueues returns before its work is done. If the first free stream were
/// always taken, all work would run on one stream.
#[test]
fn closures_that_end_at_once_take_turns_on_the_streams() {
    for_each_device(|gpu| {
        let pool = gpu.stream_pool(4).unwrap();
        let ask = || pool.with(|stream| Ok::<_, Error>(format!("{stream:?}"))).unwrap();
        let asked: HashSet<String> = (0..4).map(|_| ask()).collect();
        assert_eq!(asked.len(), 4);
        assert!(asked.contains(&ask()));
    });
}

/// A stream in use is skipped, whoever is next, also after a panic.
#[test]
fn the_least_used_stream_is_chosen() {
    for_each_device(|gpu| {
        let pool = gpu.stream_pool(3).unwrap();
        let ask = || pool.with(|stream| Ok::<_, Error>(format!("{stream:?}"))).unwrap();
        pool.with(|held| {
            let held = format!("{held:?}");
            for _ in 0..10 {
                assert_ne!(ask(), held);
            }
            Ok::<_, Error>(())
        })
        .unwrap();
        for _ in 0..3 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                pool.with(|_| -> Result<(), Error> { panic!("on purpose") })
            }));
            assert!(panicked.is_err());
        }
        let asked: HashSet<String> = (0..3).map(|_| ask()).collect();
        assert_eq!(asked.len(), 3, "no stream is counted as in use");
    });
}

#[test]
fn urgent_pools_do_the_same_work() {
    for_each_device(|gpu| {
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            let pool = gpu.stream_pool_with_priority(2, priority).unwrap();
            let pending: Vec<_> = (0..6_u32)
                .map(|value| {
                    pool.with(|stream| {
                        let buffer = stream.init_filled(stream.alloc_uninit::<u32>(32)?, value)?;
                        let mut host = stream.adopt(gpu.pinned::<u32>(32)?)?;
                        stream.copy_to_host(&buffer, &mut host)?;
                        stream.release(host)
                    })
                    .unwrap()
                })
                .collect();
            for (value, handoff) in (0..).zip(pending) {
                assert_eq!(*handoff.synchronize().unwrap(), [value; 32]);
            }
        }
    });
}

#[test]
fn pooled_streams_exchange_handoffs() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pool = gpu.stream_pool(2).unwrap();
        let work: Vec<Handoff<_>> = (0..5u32)
            .map(|value| {
                pool.with(|stream| {
                    let mut buffer = stream.alloc_zeroed::<u32>(32)?;
                    stream.fill(&mut buffer, value)?;
                    stream.release(buffer)
                })
            })
            .collect::<Result<_, _>>()
            .unwrap();
        for (handoff, value) in work.into_iter().zip(0..) {
            let buffer = compute.acquire(handoff).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap();
            compute.copy_to_host(&buffer, &mut host).unwrap();
            assert_eq!(
                *compute.release(host).unwrap().synchronize().unwrap(),
                [value; 32]
            );
        }
    });
}
