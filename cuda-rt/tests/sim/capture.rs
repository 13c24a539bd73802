use cuda_rt::driver::{DeviceAddress, ErrorCode, RawGraph, RawStream};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::{Host, Rig};

fn code<T: std::fmt::Debug>(result: cuda_rt::driver::DriverResult<T>) -> ErrorCode {
    result.unwrap_err().code()
}

/// A graph that adds 1 on one branch and 10 on another, and then copies both out. Also returns its
/// data.
fn forked(rig: &Rig, s: RawStream, side: RawStream, join: bool) -> ([DeviceAddress; 3], RawGraph) {
    let data = [0; 3].map(|_| rig.alloc(8, s).unwrap());
    rig.fill(data[0], &[0; 4], 1, s).unwrap();
    rig.fill(data[1], &[0; 4], 1, s).unwrap();
    rig.begin_capture(s).unwrap();
    rig.add(data[0], 1, 1, s).unwrap();
    let (fork, joined) = (rig.event(), rig.event());
    rig.record_event(fork, s).unwrap();
    rig.wait_event(side, fork).unwrap();
    rig.copy(data[1], data[0], 4, side).unwrap();
    rig.add(data[1], 1, 10, side).unwrap();
    rig.add(data[0], 1, 100, s).unwrap();
    rig.record_event(joined, side).unwrap();
    if join {
        rig.wait_event(s, joined).unwrap();
    }
    rig.copy(data[2], data[0], 4, s).unwrap();
    rig.copy(DeviceAddress(data[2].0 + 4), data[1], 4, s).unwrap();
    assert_eq!(
        rig.sim().counters().operations_run + rig.sim().counters().operations_pending as u64,
        2 + 3
    );
    (data, rig.end_capture(s).unwrap_or(RawGraph(0)))
}

#[test]
fn a_graph_replays_its_branches_in_any_order_that_its_edges_allow() {
    let mut read_late = 0;
    for seed in 0..100 {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let (s, side) = (rig.stream(), rig.stream());
        let (data, graph) = forked(&rig, s, side, true);
        for replay in 0..3 {
            rig.launch_graph(graph, s).unwrap();
            // The copy on the side branch and the second add race: CUDA allows both orders.
            let got = rig.read(data[2], 2, s);
            let first = replay * 101 + 1;
            assert_eq!(got[0], first + 100);
            assert!([first + 10, first + 110].contains(&got[1]), "{got:?}");
            read_late += u32::from(got[1] == first + 110);
        }
        rig.destroy_graph(graph).unwrap();
        assert_eq!(rig.sim().counters().graphs_live, 0);
    }
    assert!((50..250).contains(&read_late), "{read_late} of 300");
}

#[test]
fn a_fork_must_be_joined() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let (s, side) = (rig.stream(), rig.stream());
    let (data, graph) = forked(&rig, s, side, false);
    assert_eq!(graph, RawGraph(0), "no graph");
    rig.begin_capture(s).unwrap();
    let event = rig.event();
    rig.record_event(event, s).unwrap();
    rig.wait_event(side, event).unwrap();
    rig.add(data[0], 1, 1, side).unwrap();
    assert_eq!(code(rig.end_capture(s)), ErrorCode::STREAM_CAPTURE_UNJOINED);
    // Both streams are in their state before the capture.
    rig.synchronize_stream(s).unwrap();
    rig.fill(data[0], &[3, 0, 0, 0], 1, side).unwrap();
    rig.synchronize_stream(side).unwrap();
    assert_eq!(rig.read(data[0], 1, s), [3]);
}

#[test]
fn illegal_calls_invalidate_the_capture() {
    type Misuse = fn(&Rig, RawStream, RawStream) -> ErrorCode;
    let cases: [(Misuse, ErrorCode); 5] = [
        (
            |rig, s, _| code(rig.synchronize_stream(s)),
            ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            |rig, s, _| code(rig.destroy_stream(s)),
            ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            |rig, s, _| {
                let event = rig.event();
                rig.record_event(event, s).unwrap();
                code(rig.query_event(event))
            },
            ErrorCode::CAPTURED_EVENT,
        ),
        (
            |rig, s, _| {
                let event = rig.event();
                rig.record_event(event, s).unwrap();
                code(rig.synchronize_event(event))
            },
            ErrorCode::CAPTURED_EVENT,
        ),
        (
            |rig, s, other| {
                let event = rig.event();
                rig.record_event(event, other).unwrap();
                code(rig.wait_event(s, event))
            },
            ErrorCode::STREAM_CAPTURE_ISOLATION,
        ),
    ];
    for (misuse, want) in cases {
        let rig = Rig::seeded(1);
        let (s, other) = (rig.stream(), rig.stream());
        let data = rig.alloc(4, s).unwrap();
        rig.begin_capture(s).unwrap();
        rig.alloc(4, s).unwrap();
        assert_eq!(misuse(&rig, s, other), want);
        assert_eq!(
            code(rig.add(data, 1, 1, s)),
            ErrorCode::STREAM_CAPTURE_INVALIDATED
        );
        assert_eq!(code(rig.end_capture(s)), ErrorCode::STREAM_CAPTURE_INVALIDATED);
        rig.fill(data, &[1, 0, 0, 0], 1, s).unwrap();
        assert_eq!(rig.read(data, 1, s), [1]);
        assert_eq!(
            rig.sim().counters().allocations_live,
            1,
            "the capture's block is gone"
        );
    }
}

#[test]
fn two_captures_never_merge() {
    let rig = Rig::seeded(1);
    let (a, b, outside) = (rig.stream(), rig.stream(), rig.stream());
    rig.begin_capture(a).unwrap();
    assert_eq!(code(rig.begin_capture(a)), ErrorCode::ILLEGAL_STATE);
    rig.begin_capture(b).unwrap();
    let event = rig.event();
    rig.record_event(event, a).unwrap();
    assert_eq!(code(rig.wait_event(b, event)), ErrorCode::STREAM_CAPTURE_MERGE);
    assert!(rig.end_capture(a).is_err() && rig.end_capture(b).is_err());
    assert_eq!(
        code(rig.wait_event(outside, event)),
        ErrorCode::CAPTURED_EVENT,
        "its capture is over"
    );
    assert_eq!(code(rig.end_capture(a)), ErrorCode::ILLEGAL_STATE);
    rig.record_event(event, a).unwrap();
    rig.wait_event(outside, event).unwrap();
}

#[test]
fn only_the_stream_where_it_began_ends_a_capture() {
    let rig = Rig::seeded(1);
    let (s, side) = (rig.stream(), rig.stream());
    rig.begin_capture(s).unwrap();
    let event = rig.event();
    rig.record_event(event, s).unwrap();
    rig.wait_event(side, event).unwrap();
    assert_eq!(code(rig.end_capture(side)), ErrorCode::STREAM_CAPTURE_UNMATCHED);
    assert_eq!(code(rig.end_capture(s)), ErrorCode::STREAM_CAPTURE_INVALIDATED);
    rig.synchronize_stream(side).unwrap();
}

#[test]
fn a_graph_owns_the_memory_that_it_allocates() {
    for seed in 0..50 {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let result = rig.alloc(4, s).unwrap();
        rig.fill(result, &[0; 4], 1, s).unwrap();
        rig.begin_capture(s).unwrap();
        let temporary = rig.alloc(4, s).unwrap();
        rig.copy(temporary, result, 4, s).unwrap();
        rig.add(temporary, 1, 2, s).unwrap();
        rig.copy(result, temporary, 4, s).unwrap();
        rig.free(temporary, s).unwrap();
        assert_eq!(code(rig.free(temporary, s)), ErrorCode::INVALID_VALUE, "once");
        assert_eq!(code(rig.free(result, s)), ErrorCode::INVALID_VALUE, "not its own");
        let graph = rig.end_capture(s).unwrap();
        assert_eq!(
            code(rig.free(temporary, s)),
            ErrorCode::INVALID_VALUE,
            "the graph's, not the stream's"
        );
        for _ in 0..3 {
            rig.launch_graph(graph, s).unwrap();
        }
        rig.destroy_graph(graph).unwrap();
        assert_eq!(rig.read(result, 1, s), [6], "launches that are pending still run");
        assert_eq!(rig.sim().counters().allocations_live, 1);
    }
}

#[test]
fn two_launches_of_a_graph_never_overlap() {
    for seed in 0..50 {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let (s, other) = (rig.stream(), rig.stream());
        let data = rig.alloc(4, s).unwrap();
        rig.fill(data, &[0; 4], 1, s).unwrap();
        rig.begin_capture(s).unwrap();
        rig.add(data, 1, 1, s).unwrap();
        let graph = rig.end_capture(s).unwrap();
        rig.launch_graph(graph, s).unwrap();
        rig.launch_graph(graph, other).unwrap();
        assert_eq!(rig.read(data, 1, other), [2], "seed {seed}");
    }
}

#[test]
fn a_graph_can_be_part_of_another() {
    let rig = Rig::seeded(3);
    let (s, host) = (rig.stream(), Host::new(4));
    let data = rig.alloc(4, s).unwrap();
    rig.begin_capture(s).unwrap();
    rig.add(data, 1, 1, s).unwrap();
    rig.add(data, 1, 2, s).unwrap();
    let inner = rig.end_capture(s).unwrap();
    rig.begin_capture(s).unwrap();
    rig.fill(data, &[0; 4], 1, s).unwrap();
    rig.launch_graph(inner, s).unwrap();
    rig.download(host, data, 1, s).unwrap();
    let outer = rig.end_capture(s).unwrap();
    rig.destroy_graph(inner).unwrap();
    rig.launch_graph(outer, s).unwrap();
    rig.synchronize_stream(s).unwrap();
    assert_eq!(host.get(1), [3]);
}
