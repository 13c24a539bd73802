//! Attacks by orderings that are forgotten while a call unwinds. Without the guard that it attacks,
//! each program reads wrong bytes or freed memory. Every call that can unwind does so, once before
//! it is made and once after.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::simulator::{Order, SimConfig, SimDriver};
use cuda_rt::{
    Bundle, Communicator, Device, DeviceBuffer, DeviceSlice, Graph, Grid1, Handoff, Idle, Live, Reduction,
    Result, Scoped, Stream, StreamTag,
};
use device_kernels::scale;

use crate::driver::{BOTH, Plan, Unwinding, When, until_unwound};

cuda_rt::streams! {
    pub(crate) One;
    pub(crate) Two;
}

pub(crate) const LEN: usize = 64;

/// Runs `attack` in many orders, and with both ways in which a call unwinds.
pub(crate) fn in_many_orders(attack: impl for<'id> Fn(Device<Scoped<'id>>, &Plan, When)) {
    let random = (0..24).map(|seed| SimConfig::new().seed(seed));
    let lazy = (0..4).map(|seed| SimConfig::new().seed(seed).order(Order::Lazy));
    for config in random.chain(lazy) {
        for when in BOTH {
            let plan = Plan::default();
            let driver = Unwinding::over(SimDriver::new(config.clone().check(Check::Record)), &plan);
            Device::with_driver(driver, |gpu| attack(gpu, &plan, when)).unwrap();
        }
    }
}

/// Drops `value`; the drop must unwind.
pub(crate) fn unwind_from_drop<T>(value: T) {
    assert!(until_unwound(|| drop(value)).is_none(), "it unwinds");
}

pub(crate) fn no_race<D: Live>(gpu: &Device<D>) {
    let races = gpu.races();
    assert!(races.is_empty(), "{}", races[0]);
}

pub(crate) fn stream_one<D: Live>(gpu: &Device<D>) -> Stream<One<D>> {
    gpu.stream().unwrap()
}

pub(crate) fn stream_two<D: Live>(gpu: &Device<D>) -> Stream<Two<D>> {
    gpu.stream().unwrap()
}

pub(crate) fn filled<S: StreamTag>(stream: &Stream<S>, value: u32) -> DeviceBuffer<u32, S> {
    let mut buffer = stream.alloc_zeroed(LEN).unwrap();
    stream.fill(&mut buffer, value).unwrap();
    buffer
}

pub(crate) fn copied<S: StreamTag>(stream: &Stream<S>, source: &DeviceSlice<u32, S>) -> DeviceBuffer<u32, S> {
    let mut copy = stream.alloc_zeroed(LEN).unwrap();
    stream.copy(source, &mut copy).unwrap();
    copy
}

/// The contents of the buffer, read by `stream`.
pub(crate) fn read<D: Live>(stream: &Stream<One<D>>, buffer: &DeviceBuffer<u32, One<D>>) -> Vec<u32> {
    let mut back = vec![0; buffer.len()];
    stream.copy_to_slice(buffer, &mut back).unwrap();
    back
}

#[test]
fn pinned_memory_is_not_unmapped_where_the_record_of_its_last_use_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let one = stream_one(&gpu);
        let device = one.alloc_zeroed::<u32>(1 << 16).unwrap();
        let mut host = one.adopt(gpu.pinned::<u32>(1 << 16).unwrap()).unwrap();
        one.copy_to_host(&device, &mut host).unwrap();
        plan.arm(Some("record_event"), 1, when);
        unwind_from_drop(host);
        assert_eq!(gpu.pinned_stats().blocks_held, 1, "still mapped");
        one.synchronize().unwrap();
        no_race(&gpu);
    });
}

#[test]
fn a_shared_bundle_is_not_written_under_a_reader_where_the_end_of_its_lease_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let data = filled(&two, 1);
        let shared = two.share(data).unwrap();
        let lease = one.lease(&shared).unwrap();
        let copy = copied(&one, &lease.view());
        plan.arm(Some("record_event"), 1, when);
        unwind_from_drop(lease);
        let refused = two.try_acquire(shared.reclaim().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("unwound"), "{refused}");
        drop(refused);
        let _other = filled(&two, 2);
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}

/// A query about an older reader unwinds before the ending lease is noted.
#[test]
fn a_lease_that_ends_in_transit_is_noted_where_a_question_about_another_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let data = filled(&two, 1);
        let shared = two.share(data).unwrap();
        drop(one.lease(&shared).unwrap());
        let lease = one.lease(&shared).unwrap();
        let copy = copied(&one, &lease.view());
        let lease = one.release(lease).unwrap();
        plan.arm(Some("query_event"), 1, when);
        unwind_from_drop(lease);
        if let Ok(mut data) = two.acquire(shared.reclaim().unwrap()) {
            two.fill(&mut data, 2).unwrap();
        }
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}

#[test]
fn an_owner_that_cannot_wait_for_its_borrower_takes_no_more_work() {
    for call in ["record_event", "wait_event"] {
        in_many_orders(|gpu, plan, when| {
            let (one, two) = (stream_one(&gpu), stream_two(&gpu));
            let mut data = one.alloc_zeroed::<u32>(LEN).unwrap();
            let lent = until_unwound(|| {
                one.lend(&two, &mut data, |lent| {
                    two.fill(lent, 7).unwrap();
                    plan.arm(Some(call), 1, when);
                })
            });
            assert!(lent.is_none(), "it unwinds");
            let refused = one.fill(&mut data, 8).unwrap_err();
            assert!(refused.is_sticky(), "{refused}");
            let mut back = [0; LEN];
            if one.copy_to_slice(&data, &mut back).is_ok() {
                assert_eq!(back, [7; LEN]);
            }
            drop(data);
            no_race(&gpu);
        });
    }
}

#[test]
fn a_split_block_is_not_freed_under_a_part_whose_end_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let mut first = two.alloc_zeroed::<u32>(2 * LEN).unwrap();
        let mut second = first.split_off(LEN);
        two.fill(&mut first, 1).unwrap();
        two.fill(&mut second, 2).unwrap();
        let second = one.acquire(two.release(second).unwrap()).unwrap();
        let copy = copied(&one, &second);
        plan.arm(Some("record_event"), 1, when);
        unwind_from_drop(second);
        drop(first);
        let mut again = two.alloc_zeroed::<u32>(2 * LEN).unwrap();
        two.fill(&mut again, 3).unwrap();
        assert_eq!(read(&one, &copy), [2; LEN]);
        no_race(&gpu);
    });
}

#[test]
fn a_split_pinned_block_is_not_reused_under_a_part_whose_end_unwinds() {
    // The unwinding part is dropped first in one run and last in the other: dropped last, it alone
    // holds the block.
    for last in [false, true] {
        in_many_orders(|gpu, plan, when| {
            let one = stream_one(&gpu);
            let mut data = one.alloc_zeroed::<u32>(1 << 12).unwrap();
            one.fill(&mut data, 7).unwrap();
            let mut first = gpu.pinned::<u32>(1 << 13).unwrap();
            let mut second = one.adopt(first.split_off(1 << 12)).unwrap();
            one.copy_to_host(&data, &mut second).unwrap();
            let first = (!last).then_some(first);
            plan.arm(Some("record_event"), 1, when);
            unwind_from_drop(second);
            drop(first);
            let mine = gpu.pinned::<u32>(1 << 13).unwrap();
            assert_eq!(gpu.pinned_stats().blocks_held, 2, "the block is in use");
            one.synchronize().unwrap();
            assert!(mine.iter().all(|element| *element == 0));
            no_race(&gpu);
        });
    }
}

/// Two devices of one host, whose calls are counted together.
fn between_two(attack: impl for<'a, 'b> Fn(Device<Scoped<'a>>, Device<Scoped<'b>>, &Plan, When)) {
    for seed in 0..24 {
        for when in BOTH {
            let plan = Plan::default();
            let first = SimDriver::new(SimConfig::new().seed(seed).check(Check::Record));
            let second = Unwinding::over(first.another(), &plan);
            Device::with_driver(Unwinding::over(first, &plan), |here| {
                Device::with_driver(second, |there| attack(here, there, &plan, when)).unwrap();
            })
            .unwrap();
        }
    }
}

#[test]
fn the_source_of_a_copy_between_devices_is_not_freed_under_it_where_its_end_unwinds() {
    for call in ["copy_peer", "record_event"] {
        between_two(|here, there, plan, when| {
            let (one, two) = (stream_one(&here), stream_two(&there));
            let source = filled(&two, 1);
            let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
            let source = two.release(source).unwrap();
            plan.arm(Some(call), 1, when);
            let copied = until_unwound(|| one.copy_from_peer(source, .., &mut copy).map(drop));
            assert!(copied.is_none(), "it unwinds");
            let _others = [(); 4].map(|()| filled(&two, 9));
            if call == "record_event" || when == When::After {
                assert_eq!(read(&one, &copy), [1; LEN]);
            }
            no_race(&here);
        });
    }
}

/// The handoff of the loan is the last handle of the borrowing device, whose end unwinds.
#[test]
fn a_returned_loan_is_not_freed_where_the_end_of_the_borrower_unwinds() {
    between_two(|here, there, plan, when| {
        let (owner, compute) = (stream_one(&here), stream_two(&there));
        let mut lent = compute
            .acquire_peer(owner.release(filled(&owner, 1)).unwrap())
            .unwrap();
        for _ in 0..4 {
            compute.fill(&mut lent, 7).unwrap();
        }
        let handoff = compute.release(lent).unwrap();
        drop((compute, there));
        plan.arm(Some("destroy_stream"), 1, when);
        let back = until_unwound(|| handoff.for_its_device());
        assert!(back.is_none(), "it unwinds");
        let others = [(); 4].map(|()| filled(&owner, 9));
        for other in &others {
            assert_eq!(read(&owner, other), [9; LEN]);
        }
        no_race(&here);
    });
}

/// The copy is made, but its error says that it was not.
#[test]
fn the_other_side_of_a_copy_between_devices_waits_for_a_copy_that_is_denied() {
    between_two(|here, there, plan, _| {
        let (one, two) = (stream_one(&here), stream_two(&there));
        let source = filled(&two, 1);
        let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
        let source = two.release(source).unwrap();
        plan.arm(Some("copy_peer"), 1, When::Denied);
        let refused = one.try_copy_from_peer(source, .., &mut copy).unwrap_err();
        assert!(plan.has_unwound());
        let mut source = two.acquire(refused.value).unwrap();
        two.fill(&mut source, 9).unwrap();
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&here);
    });
}

/// The handoff's last use was on another device, so the stream that owns the memory knows nothing
/// about the use.
#[test]
fn a_dropped_handoff_is_not_freed_where_the_wait_for_its_last_use_unwinds() {
    fn drop_in_transit(
        wrap: impl for<'b> Fn(
            Handoff<DeviceBuffer<u32, Idle<Scoped<'b>>>>,
            Handoff<DeviceBuffer<u32, Idle<Scoped<'b>>>>,
        ) -> Box<dyn FnOnce() + 'b>,
    ) {
        between_two(|here, there, plan, when| {
            // The wait that unwinds is made, also behind a wait for a later record.
            here.keep_redundant_edges(true);
            let (one, two) = (stream_one(&here), stream_two(&there));
            let mut copies = Vec::new();
            let mut sources = [1, 2].map(|value| {
                let source = filled(&two, value);
                let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
                let source = one
                    .copy_from_peer(two.release(source).unwrap(), .., &mut copy)
                    .unwrap();
                copies.push((copy, value));
                Some(source)
            });
            let both = wrap(sources[0].take().unwrap(), sources[1].take().unwrap());
            plan.arm(Some("wait_event"), 1, when);
            assert!(until_unwound(both).is_none(), "it unwinds");
            let _others = [(); 4].map(|()| filled(&two, 9));
            for (copy, value) in &copies {
                assert_eq!(read(&one, copy), [*value; LEN]);
            }
            no_race(&here);
        });
    }
    // A bundle by itself, and parts of a bundle whose first part unwinds.
    drop_in_transit(|a, b| {
        drop(b);
        Box::new(move || drop(a))
    });
    drop_in_transit(|a, b| Box::new(move || drop(Handoff::join((a, b)))));
    drop_in_transit(|a, b| Box::new(move || drop(Handoff::join([a, b]))));
    drop_in_transit(|a, b| Box::new(move || drop(Handoff::join(vec![a, b]))));
}

#[derive(Bundle)]
struct Pair<P: cuda_rt::Place = Idle> {
    a: DeviceBuffer<u32, P>,
    b: DeviceBuffer<u32, P>,
}

/// As above, for a struct whose reader was on another stream than its memory.
#[test]
fn a_struct_is_not_freed_under_its_reader_where_the_wait_for_it_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let [a, b] = [1, 2].map(|value| filled(&two, value));
        let shared = two.share(Pair { a, b }).unwrap();
        let lease = one.lease(&shared).unwrap();
        let mut copies = [1, 2].map(|value| (one.alloc_zeroed::<u32>(LEN).unwrap(), value));
        one.copy(&lease.view().a, &mut copies[0].0).unwrap();
        one.copy(&lease.view().b, &mut copies[1].0).unwrap();
        drop(lease);
        plan.arm(Some("wait_event"), 1, when);
        unwind_from_drop(shared);
        let _others = [(); 4].map(|()| filled(&two, 9));
        for (copy, value) in &copies {
            assert_eq!(read(&one, copy), [*value; LEN]);
        }
        no_race(&gpu);
    });
}

/// An update changes two launches, and a call that changes one of them unwinds. The graph then uses
/// both bundles, and one of them is freed.
#[test]
fn a_graph_is_not_launched_after_a_call_that_changes_it_has_unwound() {
    fn body<'g, D: Live>(
        stream: &'g Stream<cuda_rt::Captured<'g, One<D>>>,
        input: &cuda_rt::DeviceSlice<f32, cuda_rt::Captured<'g, One<D>>>,
        out: &mut cuda_rt::DeviceSlice<f32, cuda_rt::Captured<'g, One<D>>>,
    ) -> Result<()> {
        (0..4).try_for_each(|_| scale(stream, Grid1::covering(LEN), input, out, 2.0))
    }
    for nth in 1..=4 {
        in_many_orders(|gpu, plan, when| {
            let (one, two) = (stream_one(&gpu), stream_two(&gpu));
            let bundle = || {
                (
                    one.alloc_zeroed::<f32>(LEN).unwrap(),
                    one.alloc_zeroed::<f32>(LEN).unwrap(),
                )
            };
            let mut graph = one
                .capture(bundle(), |stream, (input, mut out)| {
                    body(stream, &input, &mut out)
                })
                .unwrap();
            plan.arm(Some("set_launch"), nth, when);
            let new = bundle();
            let replaced = until_unwound(|| {
                graph
                    .replace(new, |stream, (input, mut out)| body(stream, &input, &mut out))
                    .map(drop)
            });
            assert!(replaced.is_none(), "it unwinds");
            one.synchronize().unwrap();
            let mut others: Vec<_> = (0..6).map(|_| two.alloc_zeroed::<f32>(LEN).unwrap()).collect();
            others.iter_mut().for_each(|other| two.fill(other, 5.0).unwrap());
            two.synchronize().unwrap();
            graph.launch(&one).unwrap_err();
            graph
                .update(|stream, (input, mut out)| body(stream, &input, &mut out))
                .unwrap_err();
            one.synchronize().unwrap();
            for other in &others {
                let mut back = [0.0; LEN];
                two.copy_to_slice(other, &mut back).unwrap();
                assert_eq!(back, [5.0; LEN]);
            }
            no_race(&gpu);
        });
    }
}

/// A graph that fills a buffer with 1.
fn graph_that_fills<D: Live>(one: &Stream<One<D>>) -> Graph<DeviceBuffer<u32, Idle<D>>, One<D>> {
    let data = one.alloc_zeroed::<u32>(LEN).unwrap();
    one.capture(data, |stream, mut data| stream.fill(&mut data, 1))
        .unwrap()
}

/// As above, with an update by a second capture.
#[test]
fn a_graph_is_not_launched_after_an_update_by_capture_has_unwound() {
    in_many_orders(|gpu, plan, when| {
        let one = stream_one(&gpu);
        let mut graph = graph_that_fills(&one);
        plan.arm(Some("update_graph"), 1, when);
        let new = one.alloc_zeroed::<u32>(LEN).unwrap();
        let replaced = until_unwound(|| {
            graph
                .replace(new, |stream, mut data| stream.fill(&mut data, 2))
                .map(drop)
        });
        assert!(replaced.is_none(), "it unwinds");
        graph.launch(&one).unwrap_err();
        one.synchronize().unwrap();
        no_race(&gpu);
    });
}

/// The error may name the checker or any other call, but not CUDA's call.
#[test]
fn a_graph_is_not_launched_after_an_update_that_is_made_and_denied() {
    in_many_orders(|gpu, plan, _| {
        let one = stream_one(&gpu);
        let mut graph = graph_that_fills(&one);
        plan.arm(Some("update_graph"), 1, When::Denied);
        let new = one.alloc_zeroed::<u32>(LEN).unwrap();
        let replaced = graph.replace(new, |stream, mut data| stream.fill(&mut data, 2));
        assert!(replaced.is_err());
        graph.launch(&one).unwrap_err();
        one.synchronize().unwrap();
        no_race(&gpu);
    });
}

/// An update to another bundle ends the old closures, and that call unwinds. The next launch uses
/// the new bundle.
#[test]
fn a_replaced_bundle_is_not_freed_under_its_graph_where_the_end_of_old_closures_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let one = stream_one(&gpu);
        let bundle = || (filled(&one, 1), one.adopt(gpu.pinned::<u32>(4).unwrap()).unwrap());
        let mut graph = one
            .capture(bundle(), |stream, (mut data, mut host)| {
                stream.host_fn(&mut host, |host: &mut [u32]| host[0] += 1)?;
                stream.fill(&mut data, 7)
            })
            .unwrap();
        graph.launch(&one).unwrap();
        let new = bundle();
        // The first is the capture of the new closure.
        plan.arm(Some("launch_host_function"), 2, when);
        let replaced = until_unwound(|| {
            graph.replace(new, |stream, (mut data, mut host)| {
                stream.host_fn(&mut host, |host: &mut [u32]| host[0] += 1)?;
                stream.fill(&mut data, 7)
            })
        });
        assert!(replaced.is_none());
        // Each takes memory that was freed last.
        let others = [filled(&one, 9), filled(&one, 9)];
        graph.launch(&one).unwrap();
        others
            .iter()
            .for_each(|other| assert_eq!(read(&one, other), [9; LEN]));
        no_race(&gpu);
    });
}

/// The closure of a graph belongs to its pending launches. The drop of the graph ends half-way.
#[test]
fn a_graphs_closure_is_not_ended_under_a_launch_where_the_graphs_end_unwinds() {
    for method in ["destroy_graph", "launch_host_function"] {
        in_many_orders(|gpu, plan, when| {
            let one = stream_one(&gpu);
            let ran = Arc::new(AtomicU32::new(0));
            let counts = Arc::clone(&ran);
            let mut graph = one
                .capture(one.alloc_zeroed::<u32>(LEN).unwrap(), |stream, _| {
                    stream.host_fn((), move |()| {
                        counts.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .unwrap();
            graph.launch(&one).unwrap();
            plan.arm(Some(method), 1, when);
            unwind_from_drop(graph);
            // Time for the thread for closures, if it had the closure.
            std::thread::sleep(Duration::from_millis(2));
            if ran.load(Ordering::Relaxed) == 0 {
                assert_eq!(Arc::strong_count(&ran), 2, "the closure ended before its launch");
            }
            one.synchronize().unwrap();
            assert_eq!(ran.load(Ordering::Relaxed), 1);
            no_race(&gpu);
        });
    }
}

/// A user's own panic is not a failure of the driver: the graph replays its previous contents.
#[test]
fn a_body_that_panics_in_an_update_leaves_the_graph_as_it_was() {
    in_many_orders(|gpu, _, _| {
        let one = stream_one(&gpu);
        let mut graph = graph_that_fills(&one);
        for panics_in in 1..=2 {
            let run = Cell::new(0);
            let updated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                graph.update(|stream, mut data| {
                    run.set(run.get() + 1);
                    stream.fill(&mut data, 2)?;
                    if run.get() == panics_in {
                        std::panic::resume_unwind(Box::new(()));
                    }
                    Ok(())
                })
            }));
            assert!(updated.is_err());
            graph.launch(&one).unwrap();
        }
        assert_eq!(read(&one, &graph.into_inner()), [1; LEN]);
    });
}

#[test]
fn buffers_of_a_collective_are_leaked_where_it_unwinds() {
    between_two(|here, there, plan, when| {
        let (one, two) = (stream_one(&here), stream_two(&there));
        let ranks = Communicator::new((&here, &there)).unwrap();
        let (a, b) = (
            one.alloc_zeroed::<u32>(LEN).unwrap(),
            two.alloc_zeroed::<u32>(LEN).unwrap(),
        );
        let live = here.simulator().unwrap().counters().allocations_live;
        plan.arm(Some("enqueue"), 1, when);
        let reduced = until_unwound(|| {
            ranks
                .all_reduce(Reduction::Sum, (one.rank(a), two.rank(b)))
                .map(drop)
        });
        assert!(reduced.is_none(), "it unwinds");
        ranks.status().unwrap_err();
        one.synchronize().unwrap();
        two.synchronize().unwrap();
        assert_eq!(here.simulator().unwrap().counters().allocations_live, live);
        no_race(&here);
    });
}

/// At a device's end its pinned blocks are waited for. If the first wait unwinds, the other blocks
/// stay mapped.
#[test]
fn pinned_memory_in_flight_is_not_unmapped_where_the_wait_at_the_end_unwinds() {
    for seed in 0..8 {
        for when in BOTH {
            let config = SimConfig::new()
                .seed(seed)
                .order(Order::Lazy)
                .check(Check::Record);
            let (driver, plan) = (SimDriver::new(config), Plan::default());
            let simulator = driver.simulator().unwrap().clone();
            let ended = until_unwound(|| {
                Device::with_driver(Unwinding::over(driver.clone(), &plan), |gpu| {
                    let one = stream_one(&gpu);
                    let device = one.alloc_zeroed::<u32>(1 << 14).unwrap();
                    // All at once, so that none is reused.
                    let blocks = [(); 3].map(|()| gpu.pinned::<u32>(1 << 14).unwrap());
                    for idle in blocks {
                        let mut host = one.adopt(idle).unwrap();
                        one.copy_to_host(&device, &mut host).unwrap();
                        drop(host);
                    }
                    plan.arm(Some("synchronize_event"), 1, when);
                })
                .unwrap();
            });
            assert!(ended.is_none(), "it unwinds");
            assert_eq!(simulator.counters().registrations_live, 3);
            // The copies run.
            simulator.run_pending();
            let races = simulator.races();
            assert!(races.is_empty(), "{}", races[0]);
        }
    }
}
