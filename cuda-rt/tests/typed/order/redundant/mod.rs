//! Records, waits and queries that order nothing new are left out, and only these.
#![forbid(unsafe_code)]

mod inside;
mod peers;
mod threads;
mod work;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Handoff, Live, Scoped, Stream, StreamTag};

use crate::buffers::{LEN, filled, read};

cuda_rt::streams! {
    First;
    Second;
    Third;
}

/// The calls of edges.
const EDGES: [Call; 6] = [
    Call::RecordEvent,
    Call::WaitEvent,
    Call::SynchronizeEvent,
    Call::QueryEvent,
    Call::SynchronizeStream,
    Call::QueryStream,
];

/// The calls of edges that `body` makes: records, waits, and waits and queries of the host.
fn edges<D: Live, T>(gpu: &Device<D>, body: impl FnOnce() -> T) -> ([u64; 3], T) {
    let counters = || gpu.simulator().unwrap().counters();
    let before = counters();
    let value = body();
    let after = counters();
    let made = EDGES.map(|call| after.calls(call) - before.calls(call));
    ([made[0], made[1], made[2..].iter().sum()], value)
}

fn simulated(body: impl for<'id> FnOnce(Device<Scoped<'id>>)) {
    Device::simulated(SimConfig::new().order(Order::Lazy), body).unwrap();
}

fn streams<'id>(
    gpu: &Device<Scoped<'id>>,
) -> (
    Stream<First<Scoped<'id>>>,
    Stream<Second<Scoped<'id>>>,
    Stream<Third<Scoped<'id>>>,
) {
    (
        gpu.stream().unwrap(),
        gpu.stream().unwrap(),
        gpu.stream().unwrap(),
    )
}

#[test]
fn buffers_that_go_one_by_one_cost_one_record_and_one_wait() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let buffers = [1, 2, 3].map(|value| filled(&first, value));
        let (made, handoffs) = edges(&gpu, || buffers.map(|buffer| first.release(buffer).unwrap()));
        assert_eq!(made, [1, 0, 0]);
        let (made, buffers) = edges(&gpu, || handoffs.map(|handoff| second.acquire(handoff).unwrap()));
        assert_eq!(made, [0, 1, 0]);
        for (buffer, value) in buffers.iter().zip(1..) {
            assert_eq!(read(&gpu, &second, buffer), [value; LEN]);
        }
    });
}

/// More leases than one record has.
#[test]
fn many_buffers_that_go_one_by_one_share_records() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let buffers: Vec<_> = (0..40).map(|value| filled(&first, value)).collect();
        let (made, buffers) = edges(&gpu, || {
            let handoffs: Vec<_> = buffers.into_iter().map(|b| first.release(b).unwrap()).collect();
            // The first acquired is the last recorded: its wait covers all others.
            let acquired = handoffs.into_iter().rev().map(|h| second.acquire(h).unwrap());
            acquired.collect::<Vec<_>>()
        });
        assert_eq!(made, [3, 1, 0]);
        for (buffer, value) in buffers.iter().rev().zip(0..) {
            assert_eq!(read(&gpu, &second, buffer), [value; LEN]);
        }
    });
}

/// More records with a lease than a stream has events of its own.
#[test]
fn waits_for_earlier_records_of_a_stream_are_left_out() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let mut handoffs: Vec<Handoff<_>> = Vec::new();
        for value in 0..10 {
            handoffs.push(first.release(filled(&first, value)).unwrap());
        }
        let last = second.acquire(handoffs.pop().unwrap()).unwrap();
        let (made, buffers) = edges(&gpu, || {
            let acquired = handoffs.into_iter().map(|h| second.acquire(h).unwrap());
            acquired.collect::<Vec<_>>()
        });
        assert_eq!(made, [0, 0, 0]);
        for (buffer, value) in buffers.iter().zip(0..) {
            assert_eq!(read(&gpu, &second, buffer), [value; LEN]);
        }
        drop(last);
    });
}

/// The first lease of a record has ended, and a further one has not.
#[test]
fn an_event_is_not_recorded_again_while_a_further_lease_has_it() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let buffers = [1, 2].map(|value| filled(&first, value));
        let [one, two] = buffers.map(|buffer| first.release(buffer).unwrap());
        let one = second.acquire(one).unwrap();
        first.synchronize().unwrap();
        let later = first.release(filled(&first, 3)).unwrap();
        // The later work has not begun, and the handoff is not behind it.
        assert!(!later.is_done().unwrap());
        assert!(two.is_done().unwrap());
        drop((one, later));
    });
}

/// Many more: some records are of the pool's events, which no clock counts.
#[test]
fn handoffs_beyond_the_events_of_a_stream_are_waited_for() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let handoffs: Vec<_> = (0..100)
            .map(|value| first.release(filled(&first, value)).unwrap())
            .collect();
        for (handoff, value) in handoffs.into_iter().zip(0..) {
            let buffer = second.acquire(handoff).unwrap();
            assert_eq!(read(&gpu, &second, &buffer), [value; LEN]);
        }
    });
}

#[test]
fn a_wait_is_left_out_where_another_stream_has_made_it() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let (one, two) = (filled(&first, 1), filled(&first, 2));
        let one = first.release(one).unwrap();
        let two = second.acquire(first.release(two).unwrap()).unwrap();
        let two = third.acquire(second.release(two).unwrap()).unwrap();
        // `third` waits for `second`, which waits for `first`.
        let (made, one) = edges(&gpu, || third.acquire(one).unwrap());
        assert_eq!(made, [0, 0, 0]);
        assert_eq!(read(&gpu, &third, &one), [1; LEN]);
        assert_eq!(read(&gpu, &third, &two), [2; LEN]);
    });
}

/// `second` has waited for `first`, but after the record that `third` waits for.
#[test]
fn a_wait_that_is_later_than_the_record_covers_nothing() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let early = second.release(filled(&second, 3)).unwrap();
        let (one, two) = (filled(&first, 1), filled(&first, 2));
        let one = first.release(one).unwrap();
        let two = second.acquire(first.release(two).unwrap()).unwrap();
        let early = third.acquire(early).unwrap();
        let (made, one) = edges(&gpu, || third.acquire(one).unwrap());
        assert_eq!(made, [0, 1, 0]);
        assert_eq!(read(&gpu, &third, &one), [1; LEN]);
        drop((early, two));
    });
}

/// What a stream waited for is in its next record: a wait is work.
#[test]
fn a_record_after_a_wait_is_made() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let own = filled(&second, 2);
        let before = second.record_event().unwrap();
        let theirs = second.acquire(first.release(filled(&first, 1)).unwrap()).unwrap();
        let (made, theirs) = edges(&gpu, || third.acquire(second.release(theirs).unwrap()).unwrap());
        assert_eq!(made, [1, 1, 0]);
        assert_eq!(read(&gpu, &third, &theirs), [1; LEN]);
        drop((own, before));
    });
}

#[test]
fn work_that_the_host_has_seen_over_is_waited_for_by_no_stream() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let (one, two) = (filled(&first, 1), filled(&first, 2));
        let one = first.release(one).unwrap();
        let two = second.acquire(first.release(two).unwrap()).unwrap();
        drop(second.release(two).unwrap().synchronize().unwrap());
        // `second` was behind `first`, so the host has seen the work of both over.
        let (made, one) = edges(&gpu, || {
            assert!(one.is_done().unwrap());
            third.acquire(one).unwrap()
        });
        assert_eq!(made, [0, 0, 0]);
        assert_eq!(read(&gpu, &third, &one), [1; LEN]);
    });
}

#[test]
fn a_host_that_has_waited_for_a_stream_neither_waits_nor_asks_again() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let one = first.release(filled(&first, 1)).unwrap();
        let two = second.acquire(first.release(filled(&first, 2)).unwrap()).unwrap();
        let two = second.release(two).unwrap();
        second.synchronize().unwrap();
        let (made, two) = edges(&gpu, || {
            assert!(one.is_done().unwrap());
            drop(one.synchronize().unwrap());
            two.synchronize().unwrap()
        });
        assert_eq!(made, [0, 0, 0]);
        let later = first.release(filled(&first, 3)).unwrap();
        let (made, _) = edges(&gpu, || later.synchronize().unwrap());
        assert_eq!(made, [0, 0, 1]);
        drop(two);
    });
}

#[test]
fn a_query_that_says_no_is_asked_again() {
    simulated(|gpu| {
        let (first, ..) = streams(&gpu);
        let one = first.release(filled(&first, 1)).unwrap();
        let mut asked = 0;
        let (made, ()) = edges(&gpu, || {
            while !one.is_done().unwrap() {
                asked += 1;
            }
        });
        assert!(asked > 0, "a lazy device");
        assert_eq!(made, [0, 0, asked + 1]);
        let (made, _) = edges(&gpu, || one.synchronize().unwrap());
        assert_eq!(made, [0, 0, 0]);
    });
}

#[test]
fn a_wait_that_fails_covers_nothing() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let simulator = gpu.simulator().unwrap();
        let (one, two) = (filled(&first, 1), filled(&first, 2));
        let (one, two) = (first.release(one).unwrap(), first.release(two).unwrap());
        simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
        let one = second.try_acquire(one).unwrap_err().value;
        let (made, one) = edges(&gpu, || second.acquire(one).unwrap());
        assert_eq!(made, [0, 1, 0]);
        assert_eq!(read(&gpu, &second, &one), [1; LEN]);

        simulator.fail_next(Call::SynchronizeEvent, ErrorCode::OUT_OF_MEMORY);
        let later = first.release(filled(&first, 3)).unwrap();
        let later = later.try_synchronize().unwrap_err().value;
        let (made, later) = edges(&gpu, || third.acquire(later).unwrap());
        assert_eq!(made, [0, 1, 0]);
        assert_eq!(read(&gpu, &third, &later), [3; LEN]);
        drop(two);
    });
}

#[test]
fn a_record_that_fails_is_not_shared() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let buffer = filled(&first, 1);
        let simulator = gpu.simulator().unwrap();
        simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        let buffer = first.try_release(buffer).unwrap_err().value;
        let (made, buffer) = edges(&gpu, || second.acquire(first.release(buffer).unwrap()).unwrap());
        assert_eq!(made, [1, 1, 0]);
        assert_eq!(read(&gpu, &second, &buffer), [1; LEN]);
    });
}

/// Other code may enqueue work on a stream whose handle it has.
#[test]
fn a_stream_whose_handle_was_given_away_makes_each_record_and_wait() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let buffers = [1, 2].map(|value| filled(&first, value));
        let _raw = first.raw();
        let (made, buffers) = edges(&gpu, || {
            let handoffs = buffers.map(|buffer| first.release(buffer).unwrap());
            handoffs.map(|handoff| second.acquire(handoff).unwrap())
        });
        assert_eq!(made, [2, 2, 0]);
        let (made, buffers) = edges(&gpu, || {
            let handoffs = buffers.map(|buffer| second.release(buffer).unwrap());
            handoffs.map(|handoff| first.acquire(handoff).unwrap())
        });
        assert_eq!(made, [1, 2, 0]);
        drop(buffers);
    });
}

/// The edges of a capture order its graph, and nothing now.
#[test]
fn a_capture_makes_each_edge_and_covers_nothing() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let bundle = (filled(&first, 1), filled(&first, 2));
        let (made, graph) = edges(&gpu, || {
            first.capture(bundle, |stream, (mut a, mut b)| {
                let side = stream.fork::<Second<_>>()?;
                stream
                    .lend(&side, &mut a, |a| side.fill(a, 3))
                    .and_then(|done| done)?;
                stream
                    .lend(&side, &mut b, |b| side.fill(b, 4))
                    .and_then(|done| done)
            })
        });
        let mut graph = graph.unwrap();
        // Two loans there and back, and the join of both streams.
        assert_eq!(made, [6, 6, 0]);
        graph.launch(&first).unwrap();
        let (one, two) = graph.into_inner();
        let (made, one) = edges(&gpu, || second.acquire(first.release(one).unwrap()).unwrap());
        assert_eq!(made, [1, 1, 0]);
        assert_eq!(read(&gpu, &second, &one), [3; LEN]);
        drop(two);
    });
}

#[test]
fn a_device_that_keeps_redundant_edges_makes_all_of_them() {
    simulated(|gpu| {
        let (first, second, third) = streams(&gpu);
        let buffers = [1, 2, 3].map(|value| filled(&first, value));
        gpu.keep_redundant_edges(true);
        let fourth = gpu.stream::<crate::order::redundant::work::Fourth<_>>().unwrap();
        let (made, buffers) = edges(&gpu, || {
            let handoffs = buffers.map(|buffer| first.release(buffer).unwrap());
            handoffs.map(|handoff| second.acquire(handoff).unwrap())
        });
        assert_eq!(made, [3, 3, 0]);
        let (made, handoffs) = edges(&gpu, || {
            let handoffs = buffers.map(|buffer| second.release(buffer).unwrap());
            assert!(handoffs.iter().all(|handoff| handoff.is_done().is_ok()));
            handoffs.map(|handoff| fourth.acquire(handoff.synchronize().map(Handoff::ready).unwrap()))
        });
        assert_eq!(made, [3, 0, 6]);
        // Work was counted meanwhile.
        gpu.keep_redundant_edges(false);
        let buffers = handoffs.map(Result::unwrap);
        let (made, buffers) = edges(&gpu, || {
            let handoffs = buffers.map(|buffer| fourth.release(buffer).unwrap());
            handoffs.map(|handoff| third.acquire(handoff).unwrap())
        });
        assert_eq!(made, [1, 1, 0]);
        for (buffer, value) in buffers.iter().zip(1..) {
            assert_eq!(read(&gpu, &third, buffer), [value; LEN]);
        }
    });
}

/// More streams than a table of clocks has places: the others make each record and wait.
#[test]
fn streams_beyond_the_places_of_a_table_are_ordered_too() {
    fn handed<A: StreamTag, B: StreamTag<Device = A::Device>>(from: &Stream<A>, to: &Stream<B>, value: u32)
    where
        A::Device: Live,
    {
        let buffers = [value, value + 1].map(|value| filled(from, value));
        let handoffs = buffers.map(|buffer| from.release(buffer).unwrap());
        for (handoff, value) in handoffs.into_iter().zip(value..) {
            let buffer = to.acquire(handoff).unwrap();
            assert_eq!(to.copy_to_vec(&buffer).unwrap(), [value; LEN]);
        }
    }
    simulated(|gpu| {
        let (first, ..) = streams(&gpu);
        let many: Vec<_> = (0..40)
            .map(|number| {
                let name = format!("stream {number}");
                gpu.create_stream(&name, cuda_rt::Priority::Normal).unwrap()
            })
            .collect();
        for (stream, value) in many.iter().zip((1..).step_by(2)) {
            stream
                .run_on(&gpu, |stream| {
                    handed(stream, &first, value);
                    handed(&first, stream, value);
                })
                .unwrap();
        }
        assert!(gpu.races().is_empty());
    });
}

/// The next device's streams start with clocks that know nothing.
#[test]
fn a_device_knows_nothing_of_the_waits_of_an_earlier_device() {
    for _ in 0..3 {
        simulated(|gpu| {
            // A block that another stream has dropped is asked for before its reuse.
            gpu.set_memory_caching(false);
            let (first, second, third) = streams(&gpu);
            for value in 0..5 {
                let (made, buffer) = edges(&gpu, || first.release(filled(&first, value)).unwrap());
                assert_eq!(made, [1, 0, 0]);
                let (made, buffer) = edges(&gpu, || second.acquire(buffer).unwrap());
                assert_eq!(made, [0, 1, 0]);
                let back = third.acquire(second.release(buffer).unwrap()).unwrap();
                assert_eq!(read(&gpu, &third, &back), [value; LEN]);
            }
            third.synchronize().unwrap();
        });
    }
}
