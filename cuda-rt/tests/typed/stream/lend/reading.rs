//! Views lent for reading: several streams and the owner read at once, and later writes wait for
//! all of them.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Constant, Device, DeviceBuffer, DeviceSlice, Error, Idle, Live, StreamTag};

use super::{Borrower, LEN, Third, filled, host, streams};
use crate::devices::for_each_device;

fn copied<S: StreamTag>(
    stream: &cuda_rt::Stream<S>,
    view: &DeviceSlice<u32, S>,
) -> cuda_rt::Result<DeviceBuffer<u32, S>> {
    stream.init_from(stream.alloc_uninit(view.len())?, view)
}

fn contents<D: Live, S: StreamTag<Device = D>>(
    gpu: &Device<D>,
    stream: &cuda_rt::Stream<S>,
    buffer: &DeviceSlice<u32, S>,
) -> Vec<u32> {
    let mut seen = host(gpu, stream);
    stream.copy_to_host(buffer, &mut seen[..buffer.len()]).unwrap();
    stream.release(seen).unwrap().synchronize().unwrap()[..buffer.len()].to_vec()
}

#[test]
fn two_streams_and_the_owner_read_at_once_and_the_owners_write_waits_for_them() {
    for_each_device(|gpu| {
        let (owner, borrower, third) = streams(gpu);
        let mut data = filled(&owner, 1);
        let (a, b, c) = owner
            .lend_ref(&borrower, &data, |lent| {
                let a = copied(&borrower, lent).unwrap();
                let (b, again) = owner
                    .lend_ref(&third, &data[100..], |part| {
                        // The borrower reads under the second loan too, and lends its view on.
                        let again = borrower
                            .lend_ref(&third, &lent[..10], |part| copied(&third, part))
                            .unwrap()
                            .unwrap();
                        (copied(&third, part).unwrap(), again)
                    })
                    .unwrap();
                assert_eq!(contents(gpu, &third, &again), [1; 10]);
                (a, b, copied(&owner, &data).unwrap())
            })
            .unwrap();
        owner.fill(&mut data, 2).unwrap();
        assert_eq!(contents(gpu, &borrower, &a), [1; LEN]);
        assert_eq!(contents(gpu, &third, &b), [1; LEN - 100]);
        assert_eq!(contents(gpu, &owner, &c), [1; LEN]);
        assert_eq!(contents(gpu, &owner, &data), [2; LEN]);
    });
}

/// The memory is dropped right after the loan: its free waits for the reads too.
#[test]
fn h21_memory_that_was_lent_for_reading_is_freed_after_the_reads() {
    for_each_device(|gpu| {
        let (owner, borrower, _) = streams(gpu);
        let data = filled(&owner, 1);
        let copy = owner
            .lend_ref(&borrower, &data, |lent| copied(&borrower, lent))
            .unwrap()
            .unwrap();
        drop(data);
        let mut others = [(); 4].map(|()| owner.alloc_zeroed::<u32>(LEN).unwrap());
        others.iter_mut().for_each(|other| owner.fill(other, 9).unwrap());
        assert_eq!(contents(gpu, &borrower, &copy), [1; LEN]);
    });
}

#[test]
fn a_loan_for_reading_that_is_left_by_a_panic_is_waited_for() {
    for_each_device(|gpu| {
        let (owner, borrower, _) = streams(gpu);
        let mut data = filled(&owner, 1);
        let mut copy = borrower.alloc_zeroed::<u32>(LEN).unwrap();
        let left = catch_unwind(AssertUnwindSafe(|| {
            owner.lend_ref(&borrower, &data, |lent| {
                borrower.copy(lent, &mut copy).unwrap();
                panic_any("in the closure")
            })
        }));
        assert!(left.is_err());
        owner.fill(&mut data, 2).unwrap();
        assert_eq!(contents(gpu, &borrower, &copy), [1; LEN]);
    });
}

/// Device memory and pinned memory, to read and to write, lent together.
#[test]
fn several_views_lent_together_cost_one_loan() {
    Device::simulated(SimConfig::new(), |gpu| {
        let (owner, borrower, _) = streams(&gpu);
        let counters = || gpu.simulator().unwrap().counters();
        let input = owner
            .init_filled(owner.alloc_uninit::<u32>(LEN).unwrap(), 4)
            .unwrap();
        let mut outputs = [(); 2].map(|()| owner.alloc_zeroed::<u32>(LEN).unwrap());
        let mut down = host(&gpu, &owner);
        let before = counters();
        let [first, second] = &mut outputs;
        owner
            .lend_all(
                &borrower,
                (&input, [first, second], &mut down),
                |(input, [mut a, mut b], mut down)| {
                    borrower.copy(&input, &mut a)?;
                    borrower.copy(&input[..10], &mut b[..10])?;
                    borrower.copy_to_host(&a, &mut down)
                },
            )
            .unwrap()
            .unwrap();
        let after = counters();
        for call in [Call::RecordEvent, Call::WaitEvent] {
            assert_eq!(after.calls(call) - before.calls(call), 2, "{call:?}");
        }
        // The owner's later work waits for the borrower.
        owner.fill(&mut outputs[0], 5).unwrap();
        assert_eq!(*owner.release(down).unwrap().synchronize().unwrap(), [4; LEN]);
        assert_eq!(contents(&gpu, &owner, &outputs[0]), [5; LEN]);
        assert_eq!(
            contents(&gpu, &owner, &outputs[1])[..11],
            [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0]
        );
        // A loan to the owner itself needs no order.
        let before = counters();
        owner
            .lend_ref(&owner, &input, |lent| copied(&owner, lent))
            .unwrap()
            .unwrap();
        let after = counters();
        for call in [Call::RecordEvent, Call::WaitEvent] {
            assert_eq!(after.calls(call), before.calls(call), "{call:?}");
        }
    })
    .unwrap();
}

/// Three branches of a capture read one buffer and constant weights, each launch writes the buffer
/// first, and a later node writes it again.
#[test]
fn branches_of_a_capture_read_one_buffer_and_constant_weights() {
    for_each_device(|gpu| {
        let (owner, borrower, _) = streams(gpu);
        let filled = |value| filled(&owner, value);
        let constant: Constant<DeviceBuffer<u32, Idle<_>>, Idle<_>> =
            Constant::new(owner.release(filled(20)).unwrap().synchronize().unwrap());
        let shared = borrower
            .share(
                borrower
                    .init_filled(borrower.alloc_uninit::<u32>(LEN).unwrap(), 30)
                    .unwrap(),
            )
            .unwrap();
        let weights = (
            owner.adopt(constant.clone()).unwrap(),
            owner.lease(&shared).unwrap(),
        );
        let bundle = (filled(0), weights, [filled(0), filled(0), filled(0)], filled(0));
        let mut graph = owner
            .capture(
                bundle,
                |stream, (mut x, (constant, lease), [mut q, mut k, mut v], source)| {
                    let (left, right) = (stream.fork::<Borrower<_>>()?, stream.fork::<Third<_>>()?);
                    stream.copy(&source, &mut x)?;
                    stream.lend_all(&left, (&x, &constant, &mut k), |(x_left, weights, mut k)| {
                        left.copy(&x_left[..100], &mut k[..100])?;
                        left.copy(&weights[100..], &mut k[100..])?;
                        stream.lend_all(
                            &right,
                            (&x, &lease, &constant, &mut v),
                            |(x_right, lease, constant, mut v)| {
                                right.copy(&x_right[..100], &mut v[..100])?;
                                right.copy(&lease[100..200], &mut v[100..200])?;
                                right.copy(&constant[200..], &mut v[200..])?;
                                stream.copy(&x, &mut q)
                            },
                        )?
                    })??;
                    stream.fill(&mut x, 99)
                },
            )
            .unwrap();
        for round in 1..3 {
            owner.fill(&mut graph.views().3, round).unwrap();
            graph.launch(&owner).unwrap();
            let (_, _, [q, k, v], _) = graph.views();
            let seen = [&q, &k, &v].map(|part| contents(gpu, &owner, part));
            assert_eq!(seen[0], [round; LEN]);
            assert_eq!(
                (&seen[1][..100], &seen[1][100..]),
                (&[round; 100][..], &[20; LEN - 100][..])
            );
            assert_eq!(
                (&seen[2][..100], &seen[2][100..200], &seen[2][200..]),
                (&[round; 100][..], &[30; 100][..], &[20; LEN - 200][..])
            );
        }
        let (x, ..) = graph.into_inner();
        assert_eq!(contents(gpu, &owner, &x), [99; LEN]);
    });
}

/// The waits of a loan for reading fail, on the GPU and on the host.
#[test]
fn attack_write_after_a_loan_for_reading_that_could_not_be_joined() {
    for host_waits in [false, true] {
        Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
            let (owner, borrower, _) = streams(&gpu);
            let mut data = filled(&owner, 1);
            let mut copy = borrower.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = gpu.simulator().unwrap();
            // The second record is the record at the borrower's end.
            simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
            if !host_waits {
                simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
            }
            let lent = owner.lend_ref(&borrower, &data, |lent| borrower.copy(lent, &mut copy));
            if host_waits {
                assert!(matches!(lent, Ok(Ok(()))), "{lent:?}");
                assert_eq!(simulator.pending_faults(), 0);
                owner.fill(&mut data, 2).unwrap();
                assert_eq!(contents(&gpu, &borrower, &copy), [1; LEN]);
            } else {
                assert!(matches!(lent, Err(Error::Unordered { .. })), "{lent:?}");
                assert!(owner.fill(&mut data, 2).is_err());
            }
        })
        .unwrap();
    }
}
