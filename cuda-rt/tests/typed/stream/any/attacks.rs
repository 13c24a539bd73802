//! Attempts to use what a stream keeps on another stream, without an order, or after its end.
#![forbid(unsafe_code)]

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, Mutex};
use std::thread;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{AnyDevice, AnyStream, Constant, Device, DeviceBuffer, Error, Idle, Kept, Shared};

use super::{Compute, KeptBuffer, elements, kept, stream};
use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;
use crate::pairs::for_each_pair;

/// Two brands of one stream, one inside the other. The stream itself orders their work.
#[test]
fn attack_enter_a_stream_from_inside_itself() {
    for_each_device(|gpu| {
        let worker = stream(gpu, "worker");
        let mut held = kept(&worker, 1);
        worker.run(|outer| {
            let mut view = outer.view(&mut held).unwrap();
            outer.fill(&mut view, 2).unwrap();
            let mut other = worker.run(|inner| {
                let mut buffer = filled(inner, 9);
                inner.fill(&mut buffer, 3).unwrap();
                inner.keep(buffer)
            });
            outer.copy(&outer.by_ref(&other).unwrap(), &mut view).unwrap();
            worker.run(|inner| inner.fill(&mut inner.view(&mut other).unwrap(), 4).unwrap());
        });
        assert_eq!(elements(&held), [3; LEN]);
    });
}

/// The values are compared, not the variables: exchanged values know their own streams.
#[test]
fn attack_swap_what_two_streams_keep() {
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "one"), stream(gpu, "two"));
        let (mut of_one, mut of_two) = (kept(&one, 1), kept(&two, 2));
        mem::swap(&mut of_one, &mut of_two);
        assert!(one.run(|s| s.open(of_one).map(drop)).is_err());
        assert_eq!(elements(&of_two), [1; LEN]);
    });
}

/// Leaks of every handle: nothing is freed early, and the stream is not lent to another holder.
#[test]
fn attack_leak_streams_and_what_they_keep() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
        let worker = stream(&gpu, "worker");
        let text = worker.run(|s| format!("{s:?}"));
        mem::forget(kept(&worker, 1));
        worker.run(|s| mem::forget(s.clone()));
        worker.run(|s| mem::forget(filled(s, 2)));
        drop(worker);
        let next = stream(&gpu, "next");
        assert_ne!(next.run(|s| format!("{s:?}")), text);
        assert_eq!(elements(&kept(&next, 3)), [3; LEN]);
        assert_eq!(gpu.races().len(), 0);
    })
    .unwrap();
}

/// A panic in the closure drops what it opened in the order of the stream, and leaves the rest.
#[test]
fn attack_panic_while_a_bundle_is_open() {
    nothing_is_left(|gpu| {
        let (one, two) = (stream(&gpu, "one"), stream(&gpu, "two"));
        let (held, mut lent) = (kept(&one, 1), kept(&one, 2));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            two.run(|s| {
                let mut open = s.open_ordered(held).unwrap();
                s.fill(&mut open, 5).unwrap();
                s.view_ordered(&mut lent, |mut view| {
                    s.fill(&mut view, 6).unwrap();
                    panic!("on purpose");
                })
                .unwrap();
            });
        }));
        assert!(panicked.is_err());
        // `one` waits for the fill of `two`.
        one.run(|s| {
            let view = s.view(&mut lent).unwrap();
            assert_eq!(read(&s.device(), s, &view), [6; LEN]);
        });
        assert_eq!(gpu.races().len(), 0);
    });
}

/// Many threads use, move and make streams at once.
#[test]
fn attack_streams_made_and_dropped_by_threads() {
    for_each_device(|gpu| {
        let any = AnyDevice::from(gpu);
        let exchange: Mutex<Vec<KeptBuffer>> = Mutex::default();
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for worker in 0..4_u32 {
                let (any, exchange, barrier) = (any.clone(), &exchange, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for round in 0..6 {
                        let stream = any
                            .create_stream(&format!("{worker}.{round}"), cuda_rt::Priority::Low)
                            .unwrap();
                        let value = worker * 100 + round;
                        exchange.lock().unwrap().push(kept(&stream, value));
                        let taken = exchange.lock().unwrap().pop();
                        if let Some(taken) = taken {
                            let moved = stream.run(|s| {
                                let mut buffer = s.open_ordered(taken).unwrap();
                                let (first, rest) = buffer.split_at_mut(1);
                                s.copy(&rest[..1], first).unwrap();
                                s.keep(buffer)
                            });
                            let data = elements(&moved);
                            assert!(data.iter().all(|at| *at == data[0]), "{data:?}");
                        }
                    }
                });
            }
        });
        for left in exchange.into_inner().unwrap() {
            let data = elements(&left);
            assert!(data.iter().all(|at| *at == data[0]), "{data:?}");
        }
        assert_eq!(gpu.races().len(), 0);
    });
}

/// One bundle, read by several streams on threads at once, and then overwritten by its own stream.
#[test]
fn attack_read_one_bundle_on_many_streams_at_once() {
    for_each_device(|gpu| {
        let owner = stream(gpu, "owner");
        let mut held = kept(&owner, 1);
        let readers: Vec<AnyStream> = (0..3).map(|at| stream(gpu, &at.to_string())).collect();
        for round in 2..4 {
            let copies: Vec<KeptBuffer> = thread::scope(|scope| {
                let threads: Vec<_> = readers
                    .iter()
                    .map(|reader| {
                        let held = &held;
                        scope.spawn(move || {
                            reader.run(|s| {
                                let mut copy = s.alloc_zeroed::<u32>(LEN).unwrap();
                                s.by_ref_ordered(held, |view| s.copy(&view, &mut copy).unwrap())
                                    .unwrap();
                                s.keep(copy)
                            })
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            owner.run(|s| s.fill(&mut s.view(&mut held).unwrap(), round).unwrap());
            for copy in &copies {
                assert_eq!(elements(copy), [round - 1; LEN]);
            }
        }
    });
}

/// Two devices: every use on the other device is refused, and names both. Memory is copied, inside
/// one closure in another.
#[test]
fn h36_a_bundle_of_another_device_is_refused_and_can_be_copied() {
    for_each_pair(|first, second| {
        let (here, there) = (stream(first, "here"), stream(second, "there"));
        let mut held = kept(&there, 8);
        let text = |error: Error| {
            assert!(matches!(
                error,
                Error::OtherDevice { .. } | Error::OtherStream { .. }
            ));
            let text = error.to_string();
            assert!(text.contains("there"), "{text}");
        };
        let held = here.run(|s| {
            text(s.view(&mut held).map(drop).unwrap_err());
            text(s.by_ref(&held).map(drop).unwrap_err());
            text(s.view_ordered(&mut held, |_| ()).unwrap_err());
            text(s.by_ref_ordered(&held, |_| ()).unwrap_err());
            let refused = s.open(held).map(drop).unwrap_err();
            text(refused.error);
            let refused = s.open_ordered(refused.value).map(drop).unwrap_err();
            assert!(matches!(refused.error, Error::OtherDevice { .. }));
            text(refused.error);
            refused.value
        });
        text(there.run_on(first, |_| ()).unwrap_err());
        let (copy, held) = here.run(|a| {
            there.run(|b| {
                let mut copy = a.alloc_zeroed::<u32>(LEN).unwrap();
                let theirs = b.release(b.open(held).unwrap()).unwrap();
                let theirs = a.copy_from_peer(theirs, .., &mut copy).unwrap();
                let mut theirs = b.acquire(theirs).unwrap();
                b.fill(&mut theirs, 0).unwrap(); // behind the copy
                (a.keep(copy), b.keep(theirs))
            })
        });
        assert_eq!(elements(&copy), [8; LEN]);
        assert_eq!(elements(&held), [0; LEN]);
    });
}

/// One device as two: two brands of it copy between each other as two devices do.
#[test]
fn attack_copy_between_two_brands_of_one_device() {
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "one"), stream(gpu, "two"));
        let held = kept(&two, 8);
        let copy = one.run(|a| {
            two.run(|b| {
                let mut copy = a.alloc_zeroed::<u32>(LEN).unwrap();
                let theirs = b.release(b.open(held).unwrap()).unwrap();
                let theirs = a.copy_from_peer(theirs, .., &mut copy).unwrap();
                b.fill(&mut b.acquire(theirs).unwrap(), 0).unwrap();
                a.keep(copy)
            })
        });
        assert_eq!(elements(&copy), [8; LEN]);
    });
}

/// A lease and a constant are bundles of every device by their types. Their values stay with the
/// stream that keeps them.
#[test]
fn attack_keep_a_lease_and_a_constant() {
    nothing_is_left(|gpu| {
        let (one, two) = (stream(&gpu, "one"), stream(&gpu, "two"));
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let shared = compute.share(filled(&compute, 3)).unwrap();
        let lease = one
            .run_on(&gpu, |s| s.keep((s.lease(&shared).unwrap(), filled(s, 1))))
            .unwrap();
        let refused = two.run(|s| s.open(lease).map(drop)).unwrap_err();
        let shared = Shared::reclaim(shared).expect_err("a lease is out");
        let moved = two.run(|s| {
            let (lease, mut buffer) = s.open_ordered(refused.value).unwrap();
            s.copy(&lease.view(), &mut buffer).unwrap();
            s.keep((lease, buffer))
        });
        drop(moved);
        // The writer waits for the read of `two`.
        let mut buffer = compute.acquire(shared.reclaim().unwrap()).unwrap();
        compute.fill(&mut buffer, 4).unwrap();
        assert_eq!(gpu.races().len(), 0);
    });
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let idle = compute
            .release(filled(&compute, 5))
            .unwrap()
            .synchronize()
            .unwrap();
        let constant = Constant::new(idle);
        let worker = stream(gpu, "worker");
        let held = worker
            .run_on(gpu, |s| s.keep(s.adopt(constant.clone()).unwrap()))
            .unwrap();
        let data = worker.run(|s| read(&s.device(), s, &s.open(held).unwrap().view()));
        assert_eq!(data, [5; LEN]);
    });
}

/// A failed record or wait leaves the bundle with its stream.
#[test]
fn attack_take_over_where_the_order_cannot_be_made() {
    for call in [Call::RecordEvent, Call::WaitEvent] {
        Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let (one, two) = (stream(&gpu, "one"), stream(&gpu, "two"));
            let held = kept(&one, 1);
            let simulator = gpu.simulator().unwrap();
            simulator.fail_next(call, ErrorCode::OUT_OF_MEMORY);
            let refused = two.run(|s| s.open_ordered(held).map(drop)).unwrap_err();
            assert!(matches!(refused.error, Error::Driver { .. }));
            simulator.clear_faults();
            assert_eq!(refused.value.stream(), &one);
            assert_eq!(elements(&refused.value), [1; LEN]);
            assert_eq!(gpu.races().len(), 0);
        })
        .unwrap();
    }
}

/// Scoped devices leave their closure as values. They keep their instance, and their memory stays
/// memory of that instance.
#[test]
fn attack_keep_what_is_of_a_device_that_has_ended() {
    type Buffers = Vec<Kept<Vec<DeviceBuffer<u32, Idle<AnyDevice>>>>>;
    let config = SimConfig::new;
    let buffers: Buffers = (0..2)
        .map(|value| {
            Device::simulated(config(), |gpu| {
                let worker = stream(&gpu, "worker");
                worker.run(|s| s.keep(vec![filled(s, value), filled(s, value)]))
            })
            .unwrap()
        })
        .collect();
    let [one, two] = <[_; 2]>::try_from(buffers).unwrap();
    assert_ne!(one.stream().device(), two.stream().device());
    let refused = two.stream().run(|s| s.open_ordered(one).map(drop)).unwrap_err();
    assert!(matches!(refused.error, Error::OtherDevice { .. }));
    let owner = refused.value.stream().clone();
    let data = owner.run(|s| {
        let buffers = s.open(refused.value).unwrap();
        read(&s.device(), s, &buffers[1])
    });
    assert_eq!(data, [0; LEN]);
}
