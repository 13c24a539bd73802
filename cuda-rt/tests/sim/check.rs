//! Races of raw calls are reported, and their corrected twins are not.

use std::ffi::c_void;

use cuda_rt::checker::{AccessKind, ActorKind, Race, Site};
use cuda_rt::checker::{Check, Checked};
use cuda_rt::driver::{
    CallSite, Copies, DeviceAddress, DriverWithTools, ErrorCode, ForeignUse, Hint, HostFunction, Location,
    Managed, Memory, RawStream, Streams, Tools,
};
use cuda_rt::driver::{CopyExtent as Rows, Pitch};
use cuda_rt::simulator::{Call, Order, SimConfig};

use crate::kernels;
use crate::rig::{Host, Rig};

/// The races of a program, which must be the same in every order.
pub(crate) fn races(program: impl Fn(&Rig)) -> Vec<Race> {
    let run = |order, seed| {
        let rig = Rig::new(SimConfig::new().order(order).seed(seed));
        program(&rig);
        rig.sim().races()
    };
    let names = |races: &[Race]| {
        races
            .iter()
            .map(|race| (race.first.operation.name, race.second.operation.name))
            .collect::<Vec<_>>()
    };
    let races = run(Order::Eager, 0);
    for seed in 0..4 {
        assert_eq!(
            names(&run(Order::Random, seed)),
            names(&races),
            "the order must not matter (seed {seed})"
        );
        assert_eq!(
            names(&run(Order::Lazy, seed)),
            names(&races),
            "the order must not matter (seed {seed})"
        );
    }
    races
}

/// The racing operations, by name.
pub(crate) fn named(races: &[Race]) -> Vec<(&str, &str)> {
    races
        .iter()
        .map(|race| (race.first.operation.name, race.second.operation.name))
        .collect()
}

/// A function that touches nothing: the checker goes by what the call says that it uses.
unsafe extern "C" fn touches_nothing(_: *mut c_void) {}

fn host_function(rig: &Rig, host: Host, bytes: usize, writes: bool, stream: RawStream) {
    let address = DeviceAddress(host.memory().address().addr().get() as u64);
    let (run, uses) = (
        touches_nothing,
        ForeignUse {
            address,
            bytes,
            writes,
        },
    );
    // SAFETY: the stream is live, and the function touches nothing.
    unsafe {
        rig.driver
            .launch_host_function(stream, HostFunction { run, data: 0 }, &[uses])
    }
    .unwrap();
}

/// The accesses of a host function are its stream's: ordered by events, and by the order of the
/// stream, and by nothing else.
#[test]
fn a_host_function_that_is_not_ordered_with_a_copy_races() {
    let program = |rig: &Rig, ordered: bool, writes: bool| {
        let (a, b, event) = (rig.stream(), rig.stream(), rig.event());
        let (data, host) = (rig.alloc(64, a).unwrap(), Host::new(64));
        rig.fill(data, &[1], 64, a).unwrap();
        rig.download(host, data, 16, a).unwrap();
        host_function(rig, host, 64, true, a);
        if ordered {
            rig.record_event(event, a).unwrap();
            rig.wait_event(b, event).unwrap();
        }
        host_function(rig, host, 64, writes, b);
    };
    for writes in [false, true] {
        assert_eq!(named(&races(|rig| program(rig, true, writes))), []);
    }
    let racing = [("host function", "host function")];
    // The function of the first stream replaced the copy that it comes after.
    for writes in [false, true] {
        assert_eq!(named(&races(|rig| program(rig, false, writes))), racing);
    }
}

/// A copy of rows uses its rows, and no byte between them.
#[test]
fn copies_of_rows_race_only_where_their_rows_overlap() {
    let program = |rig: &Rig, column: u64, width_bytes: usize| {
        let (a, b) = (rig.stream(), rig.stream());
        let [left, right, frame] = [64, 64, 64].map(|bytes| rig.alloc(bytes, a).unwrap());
        rig.synchronize_stream(a).unwrap();
        let extent = Rows {
            width_bytes,
            height: 4,
            depth: 2,
        };
        let (apart, packed) = (
            Pitch { bytes: 8, rows: 4 },
            Pitch {
                bytes: width_bytes,
                rows: 4,
            },
        );
        let to = DeviceAddress(frame.0 + column);
        rig.copy_rows((frame, apart), (left, packed), extent, a).unwrap();
        rig.copy_rows((to, apart), (right, packed), extent, b).unwrap();
    };
    assert_eq!(named(&races(|rig| program(rig, 4, 4))), []);
    let overlapping = races(|rig| program(rig, 3, 4));
    assert!(!overlapping.is_empty());
    assert!(named(&overlapping).iter().all(|names| *names == ("copy", "copy")));
    // A stream that reads the gaps reads nothing that the copy writes.
    let reads = |rig: &Rig, column: u64| {
        let (a, b) = (rig.stream(), rig.stream());
        let [source, other, frame] = [64, 64, 64].map(|bytes| rig.alloc(bytes, a).unwrap());
        rig.synchronize_stream(a).unwrap();
        let extent = Rows {
            width_bytes: 4,
            height: 8,
            depth: 1,
        };
        let (apart, packed) = (Pitch { bytes: 8, rows: 8 }, Pitch { bytes: 4, rows: 8 });
        rig.copy_rows((frame, apart), (source, packed), extent, a)
            .unwrap();
        let from = DeviceAddress(frame.0 + column);
        rig.copy_rows((other, packed), (from, apart), extent, b).unwrap();
    };
    assert_eq!(named(&races(|rig| reads(rig, 4))), []);
    assert!(!races(|rig| reads(rig, 1)).is_empty());
}

/// The checker does not see how one thread tells another that it has waited, so one thread's wait
/// counts for all threads. A wait between streams counts for the streams, whichever thread makes
/// the call.
#[test]
fn work_that_one_host_thread_waited_for_is_over_for_all() {
    let program = |rig: &Rig, waited: bool| {
        let (a, b) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        std::thread::scope(|scope| {
            let write = || {
                rig.add(data, 16, 1, a).unwrap();
                if waited {
                    rig.synchronize_stream(a).unwrap();
                }
            };
            scope.spawn(write).join().unwrap();
            let read = || rig.download(Host::new(64), data, 16, b).unwrap();
            scope.spawn(read).join().unwrap();
        });
    };
    assert_eq!(named(&races(|rig| program(rig, true))), []);
    assert_eq!(
        named(&races(|rig| program(rig, false))),
        [(kernels::ADD.name, "copy to host")]
    );
}

#[test]
fn a_missing_wait_is_reported_with_both_places_and_the_seed() {
    let program = |rig: &Rig, ordered: bool| {
        let (a, b) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        rig.add(data, 16, 1, a).unwrap();
        let event = rig.event();
        rig.record_event(event, a).unwrap();
        if ordered {
            rig.wait_event(b, event).unwrap();
        }
        rig.download(Host::new(64), data, 16, b).unwrap();
    };
    let rig = Rig::seeded(77);
    program(&rig, false);
    let [race] = &rig.sim().races()[..] else {
        panic!("{:?}", rig.sim().races())
    };
    assert_eq!(
        (race.first.actor, race.second.actor),
        (ActorKind::CudaStream, ActorKind::CudaStream)
    );
    assert_eq!(
        (race.first.access, race.second.access),
        (AccessKind::Write, AccessKind::Read)
    );
    assert_eq!(
        (race.first.operation.name, race.second.operation.name),
        (kernels::ADD.name, "copy to host")
    );
    assert_eq!((race.bytes.end - race.bytes.start, race.seed), (64, Some(77)));
    for party in [&race.first, &race.second] {
        let Site::Code(place) = party.operation.site else {
            panic!("{party}")
        };
        assert!(place.file().ends_with("rig.rs"), "{place}");
    }
    assert!(race.to_string().ends_with("replay:  seed 77"), "{race}");
    assert_eq!(races(|rig| program(rig, false)).len(), 1);
    assert_eq!(races(|rig| program(rig, true)), []);
}

#[test]
fn a_buffer_freed_on_the_wrong_stream_is_reported() {
    let program = |rig: &Rig, ordered: bool| {
        let (a, for_frees) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        rig.fill(data, &[1], 64, a).unwrap();
        if ordered {
            rig.synchronize_stream(a).unwrap();
        }
        rig.free(data, for_frees).unwrap();
    };
    assert_eq!(named(&races(|rig| program(rig, false))), [("fill", "free")]);
    assert_eq!(races(|rig| program(rig, true)), []);
}

#[test]
fn two_readers_and_a_writer_that_waits_for_one() {
    let program = |rig: &Rig, waits: usize| {
        let streams = [rig.stream(), rig.stream()];
        let data = rig.alloc(64, streams[0]).unwrap();
        rig.synchronize_stream(streams[0]).unwrap();
        let copies = streams.map(|s| rig.alloc(64, s).unwrap());
        let writer = rig.stream();
        for (number, (s, to)) in streams.into_iter().zip(copies).enumerate() {
            rig.copy(to, data, 64, s).unwrap();
            let event = rig.event();
            rig.record_event(event, s).unwrap();
            if number < waits {
                rig.wait_event(writer, event).unwrap();
            }
        }
        rig.fill(data, &[1], 64, writer).unwrap();
    };
    assert_eq!(named(&races(|rig| program(rig, 1))), [("copy", "fill")]);
    assert_eq!(races(|rig| program(rig, 2)), []);
}

#[test]
fn disjoint_ranges_do_not_race() {
    let program = |rig: &Rig, at: u64| {
        let (a, b) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        rig.synchronize_stream(a).unwrap();
        rig.fill(data, &[1], 32, a).unwrap();
        rig.fill(DeviceAddress(data.0 + at), &[2], 32, b).unwrap();
    };
    assert_eq!(races(|rig| program(rig, 32)), []);
    let races = races(|rig| program(rig, 31));
    assert_eq!(races[0].bytes.end - races[0].bytes.start, 1);
}

#[test]
fn the_host_waits_by_stream_event_and_query() {
    let program = |rig: &Rig, wait: &dyn Fn(&Rig, _, _)| {
        let (a, b) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        rig.fill(data, &[1], 64, a).unwrap();
        let event = rig.event();
        rig.record_event(event, a).unwrap();
        wait(rig, a, event);
        rig.fill(data, &[2], 64, b).unwrap();
    };
    assert_eq!(
        races(|rig| program(rig, &|_, _, _| {})).len(),
        1,
        "with the fill, which covers the allocation"
    );
    assert_eq!(
        races(|rig| program(rig, &|rig, a, _| rig.synchronize_stream(a).unwrap())),
        []
    );
    assert_eq!(
        races(|rig| program(rig, &|rig, _, event| rig.synchronize_event(event).unwrap())),
        []
    );
    let query = |rig: &Rig, _, event| while !rig.query_event(event).unwrap() {};
    assert_eq!(races(|rig| program(rig, &query)), []);
    let again = |rig: &Rig, _, event| {
        let other = rig.stream();
        rig.record_event(event, other).unwrap();
        rig.synchronize_event(event).unwrap();
    };
    assert_eq!(
        races(|rig| program(rig, &again)).len(),
        1,
        "recorded again elsewhere"
    );
}

#[test]
fn a_successful_query_of_a_stream_orders_the_hosts_later_calls() {
    let program = |rig: &Rig, until_done: bool| {
        let (a, b) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, a).unwrap();
        rig.fill(data, &[1], 64, a).unwrap();
        while until_done && !rig.query_stream(a).unwrap() {}
        rig.fill(data, &[2], 64, b).unwrap();
    };
    assert_eq!(named(&races(|rig| program(rig, false))), [("fill", "fill")]);
    assert_eq!(races(|rig| program(rig, true)), []);
}

#[test]
fn a_query_of_a_stream_that_says_no_orders_nothing() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy).check(Check::Record));
    let (a, b) = (rig.stream(), rig.stream());
    let data = rig.alloc(64, a).unwrap();
    rig.fill(data, &[1], 64, a).unwrap();
    // A lazy device runs one operation at each query.
    assert!(!rig.query_stream(a).unwrap(), "two operations were pending");
    rig.fill(data, &[2], 64, b).unwrap();
    assert_eq!(named(&rig.sim().races()), [("fill", "fill")]);
}

fn note_host_access(rig: &Rig, host: Host) {
    let (memory, passed) = (host.memory(), CallSite::here("the host"));
    rig.driver.hint(Hint::HostAccess {
        address: memory.address(),
        bytes: memory.len_bytes(),
        access: AccessKind::Write,
        passed,
    });
}

#[test]
fn the_host_races_with_a_copy_it_did_not_wait_for() {
    let program = |rig: &Rig, ordered: bool| {
        let s = rig.stream();
        let host = Host::new(64);
        let data = rig.alloc(64, s).unwrap();
        rig.download(host, data, 16, s).unwrap();
        if ordered {
            rig.synchronize_stream(s).unwrap();
        }
        note_host_access(rig, host);
        rig.upload(data, host, 16, s).unwrap();
    };
    let found = races(|rig| program(rig, false));
    assert_eq!(named(&found), [("copy to host", "the host")]);
    assert_eq!(
        (found[0].second.actor, &*found[0].second.name),
        (ActorKind::HostThread, "host")
    );
    assert!(
        matches!(found[0].second.operation.site, Site::Code(place) if place.file().ends_with("check.rs"))
    );
    assert_eq!(races(|rig| program(rig, true)), []);
}

/// A free of managed memory counts as a use, and so does a prefetch.
#[test]
fn freeing_managed_memory_counts_as_a_use() {
    for prefetch in [false, true] {
        let program = |rig: &Rig, ordered: bool| {
            let s = rig.stream();
            let memory = rig.driver.alloc_managed(64).unwrap();
            let address = DeviceAddress(memory.addr().get() as u64);
            if prefetch {
                // SAFETY: any order of calls is sound on the simulated device; see the rig's text.
                unsafe { rig.driver.prefetch(memory, 64, Location::Device, s) }.unwrap();
            } else {
                rig.fill(address, &[1], 64, s).unwrap();
            }
            if ordered {
                rig.synchronize_stream(s).unwrap();
            }
            // SAFETY: as above.
            unsafe { rig.driver.free_managed(memory) }.unwrap();
        };
        let work = if prefetch { "prefetch" } else { "fill" };
        assert_eq!(
            named(&races(|rig| program(rig, false))),
            [(work, "free of managed memory")]
        );
        assert_eq!(races(|rig| program(rig, true)), []);
    }
}

/// Work that reaches page-locked memory in place is followed like a copy of it.
#[test]
fn the_host_races_with_a_kernel_or_a_fill_on_mapped_memory() {
    for fill in [false, true] {
        let program = |rig: &Rig, ordered: bool| {
            let s = rig.stream();
            let host = Host::new(64);
            rig.register_host(host.memory()).unwrap();
            let address = rig.driver.mapped_address(host.memory().address()).unwrap();
            if fill {
                rig.fill(address, &[1], 64, s).unwrap();
            } else {
                rig.add(address, 16, 1, s).unwrap();
            }
            if ordered {
                rig.synchronize_stream(s).unwrap();
            }
            note_host_access(rig, host);
        };
        let work = if fill { "fill" } else { kernels::ADD.name };
        assert_eq!(named(&races(|rig| program(rig, false))), [(work, "the host")]);
        assert_eq!(races(|rig| program(rig, true)), []);
    }
}

#[test]
fn unregistering_counts_as_a_use() {
    let program = |rig: &Rig, ordered: bool| {
        let s = rig.stream();
        let host = Host::new(64);
        rig.register_host(host.memory()).unwrap();
        let data = rig.alloc(64, s).unwrap();
        rig.download(host, data, 16, s).unwrap();
        if ordered {
            rig.synchronize_stream(s).unwrap();
        }
        rig.unregister_host(host.memory()).unwrap();
    };
    assert_eq!(
        named(&races(|rig| program(rig, false))),
        [("copy to host", "unregister")]
    );
    assert_eq!(races(|rig| program(rig, true)), []);
}

#[test]
fn a_capture_is_checked_within_and_each_launch_without() {
    // Inside the capture: the origin's next operation does not wait for a fork.
    let inside = |rig: &Rig, ordered: bool| {
        let (origin, fork) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, origin).unwrap();
        let [begun, forked] = [rig.event(), rig.event()];
        rig.begin_capture(origin).unwrap();
        rig.record_event(begun, origin).unwrap();
        rig.wait_event(fork, begun).unwrap();
        rig.fill(data, &[1], 64, fork).unwrap();
        rig.record_event(forked, fork).unwrap();
        if ordered {
            rig.wait_event(origin, forked).unwrap();
        }
        rig.fill(data, &[2], 64, origin).unwrap();
        rig.wait_event(origin, forked).unwrap();
        let graph = rig.end_capture(origin).unwrap();
        rig.launch_graph(graph, origin).unwrap();
    };
    assert_eq!(named(&races(|rig| inside(rig, false))), [("fill", "fill")]);
    assert_eq!(races(|rig| inside(rig, true)), []);

    // Outside: nothing orders a launch after other work on the same memory. Two launches of one
    // graph are ordered.
    let outside = |rig: &Rig, ordered: bool| {
        let (origin, other) = (rig.stream(), rig.stream());
        let data = rig.alloc(64, other).unwrap();
        rig.begin_capture(origin).unwrap();
        rig.fill(data, &[1], 64, origin).unwrap();
        let graph = rig.end_capture(origin).unwrap();
        if ordered {
            rig.synchronize_stream(other).unwrap();
        }
        rig.launch_graph(graph, origin).unwrap();
        rig.launch_graph(graph, other).unwrap();
    };
    assert_eq!(named(&races(|rig| outside(rig, false))), [("alloc", "fill")]);
    assert_eq!(races(|rig| outside(rig, true)), []);
}

#[test]
fn a_changed_graph_is_checked_for_its_present_accesses() {
    // The graph adds to `a`, and after the change to `b`, while another stream fills one of them.
    let change = |rig: &Rig, by_capture: bool, fill_new: bool| {
        let (origin, other) = (rig.stream(), rig.stream());
        let [a, b] = [0; 2].map(|_| rig.alloc(64, origin).unwrap());
        rig.begin_capture(origin).unwrap();
        rig.add(a, 16, 1, origin).unwrap();
        let node = rig.captured_node(origin).unwrap();
        let graph = rig.end_capture(origin).unwrap();
        if by_capture {
            rig.begin_capture(origin).unwrap();
            rig.add(b, 16, 1, origin).unwrap();
            rig.update_graph(graph, origin).unwrap();
        } else {
            rig.set_add((graph, node), b, 16, 1).unwrap();
        }
        rig.synchronize_stream(origin).unwrap();
        rig.launch_graph(graph, origin).unwrap();
        rig.fill(if fill_new { b } else { a }, &[0], 64, other).unwrap();
        // A launch can also change after an update by capture.
        if by_capture {
            rig.synchronize_stream(other).unwrap();
            rig.set_add((graph, node), a, 16, 1).unwrap();
            rig.launch_graph(graph, origin).unwrap();
            rig.fill(b, &[0], 64, origin).unwrap();
        }
    };
    for by_capture in [false, true] {
        let races_with = |fill_new| races(|rig| change(rig, by_capture, fill_new));
        assert_eq!(named(&races_with(true)), [("tests::add", "fill")]);
        assert_eq!(races_with(false), []);
    }
}

#[test]
fn a_denied_race_fails_every_call_after_the_racing_call() {
    let rig = Rig::with_check(SimConfig::new().seed(5), Check::Deny);
    let (a, b) = (rig.stream(), rig.stream());
    let data = rig.alloc(64, a).unwrap();
    // An error would mean that nothing was enqueued.
    let enqueued = || {
        let counters = rig.sim().counters();
        (
            counters.operations_pending + counters.operations_run as usize,
            counters.calls(Call::Fill),
        )
    };
    let before = enqueued();
    rig.fill(data, &[1], 64, b).unwrap();
    assert_eq!(enqueued(), (before.0 + 1, before.1 + 1));
    let error = rig.fill(data, &[1], 64, a).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ILLEGAL_STATE);
    assert!(
        error.detail().contains("data race on 64 bytes") && error.detail().contains("seed 5"),
        "{error}"
    );
    assert_eq!(rig.synchronize_stream(a).unwrap_err(), error);
    assert_eq!(rig.alloc(64, a).unwrap_err(), error);
    assert_eq!(rig.sim().races().len(), 1);
}

#[test]
fn a_race_with_the_host_fails_the_next_call() {
    let rig = Rig::with_check(SimConfig::new(), Check::Deny);
    let s = rig.stream();
    let host = Host::new(64);
    let data = rig.alloc(64, s).unwrap();
    rig.download(host, data, 16, s).unwrap();
    note_host_access(&rig, host);
    assert!(
        rig.synchronize_stream(s)
            .unwrap_err()
            .detail()
            .contains("data race")
    );
}

#[test]
fn any_driver_can_be_used_with_or_without_a_checker() {
    let rig = Rig::with_check(SimConfig::new(), Check::Off);
    assert!(!rig.driver.is_checked());
    let checked = Checked::over(
        rig.driver.clone() as std::sync::Arc<dyn DriverWithTools>,
        Check::Record,
    );
    let (a, b) = (
        checked.create_stream(0).unwrap(),
        checked.create_stream(0).unwrap(),
    );
    // SAFETY: any order of calls is sound on the simulated device; see the text of `rig`.
    let data = unsafe { checked.alloc(64, a) }.unwrap();
    // SAFETY: as above.
    unsafe { checked.fill(data, &[1], 64, b) }.unwrap();
    assert_eq!(named(&checked.races()), [("alloc", "fill")]);
    let Site::Code(place) = checked.races()[0].second.operation.site else {
        panic!("{:?}", checked.races())
    };
    assert!(place.file().ends_with("check.rs"), "{place}");
    assert!(checked.is_checked() && rig.sim().races().is_empty());
}

#[test]
fn a_call_that_failed_did_nothing() {
    let rig = Rig::seeded(0);
    let (a, b) = (rig.stream(), rig.stream());
    let data = rig.alloc(64, a).unwrap();
    rig.sim()
        .fail_next(cuda_rt::simulator::Call::Fill, ErrorCode::INVALID_VALUE);
    rig.fill(data, &[1], 64, b).unwrap_err();
    assert_eq!(rig.sim().races(), []);
    let event = rig.event();
    rig.record_event(event, a).unwrap();
    rig.sim()
        .fail_next(cuda_rt::simulator::Call::WaitEvent, ErrorCode::INVALID_VALUE);
    rig.wait_event(b, event).unwrap_err();
    rig.fill(data, &[1], 64, b).unwrap();
    assert_eq!(rig.sim().races().len(), 1, "the wait did not happen");
}
