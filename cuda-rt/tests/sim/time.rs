use cuda_rt::simulator::{Call, Model, Order, SimConfig, SpanKind};
use cuda_rt::timeline::Engine;

use crate::rig::{Host, Rig};

/// Three streams, three buffers, and `chunks` chunks. Returns the modelled wall time and each
/// engine's time, in ns.
fn pipeline(chunks: usize, kernel_ns_per_thread: f64) -> (u64, [u64; 3]) {
    const WORDS: usize = 1 << 18;
    let config = SimConfig::new()
        .seed(9)
        .kernel_ns_per_thread("tests::add", kernel_ns_per_thread);
    let rig = Rig::new(config);
    let (up, compute, down) = (rig.stream(), rig.stream(), rig.stream());
    let data = [0; 3].map(|_| rig.alloc(4 * WORDS, up).unwrap());
    let [arrived, computed, left] = [0; 3].map(|_| [0; 3].map(|_| rig.event()));
    let (from, to) = (Host::new(4 * WORDS), Host::new(4 * WORDS));
    let started_ns = rig.sim().host_now_ns();
    for chunk in 0..chunks {
        let i = chunk % 3;
        rig.wait_event(up, left[i]).unwrap();
        rig.upload(data[i], from, WORDS, up).unwrap();
        rig.record_event(arrived[i], up).unwrap();
        rig.wait_event(compute, arrived[i]).unwrap();
        rig.add(data[i], WORDS as u64, 1, compute).unwrap();
        rig.record_event(computed[i], compute).unwrap();
        rig.wait_event(down, computed[i]).unwrap();
        rig.download(to, data[i], WORDS, down).unwrap();
        rig.record_event(left[i], down).unwrap();
    }
    [up, compute, down]
        .iter()
        .for_each(|s| rig.synchronize_stream(*s).unwrap());
    let wall_ns = rig.sim().host_now_ns() - started_ns;
    (
        wall_ns,
        [Engine::ToDevice, Engine::Compute, Engine::ToHost].map(|engine| rig.sim().busy_ns(engine)),
    )
}

#[test]
fn a_pipeline_takes_as_long_as_its_longest_stage() {
    for (name, ns_per_thread) in [
        ("copy-bound", 0.00001),
        ("balanced", 0.067),
        ("compute-bound", 0.2),
    ] {
        let (wall_ns, busy_ns) = pipeline(200, ns_per_thread);
        let bound = *busy_ns.iter().max().unwrap() as f64;
        let ratio = wall_ns as f64 / bound;
        assert!(
            (1.0..1.02).contains(&ratio),
            "{name}: {ratio} of the bound; busy {busy_ns:?}"
        );
    }
}

#[test]
fn an_engine_does_one_thing_at_a_time_and_engines_overlap() {
    let rig = Rig::seeded(4);
    let streams = [0; 4].map(|_| rig.stream());
    let host = Host::new(1 << 20);
    let data = streams.map(|s| rig.alloc(1 << 20, s).unwrap());
    rig.sim().record_spans(true);
    for _ in 0..10 {
        for i in [0, 1] {
            rig.upload(data[i], host, 1 << 18, streams[i]).unwrap();
            rig.download(host, data[i + 2], 1 << 18, streams[i + 2]).unwrap();
        }
    }
    streams.iter().for_each(|s| rig.synchronize_stream(*s).unwrap());
    let spans = rig.sim().take_spans();
    for (i, a) in spans.iter().enumerate() {
        for b in &spans[i + 1..] {
            let apart = a.end_ns <= b.start_ns || b.end_ns <= a.start_ns;
            assert!(a.engine != b.engine || apart, "{a:?} and {b:?}");
        }
    }
    let first_ns = spans.iter().map(|span| span.start_ns).min().unwrap();
    let wall_ns = spans.iter().map(|span| span.end_ns).max().unwrap() - first_ns;
    assert!(
        wall_ns as f64 <= 1.01 * rig.sim().busy_ns(Engine::ToDevice) as f64,
        "the directions overlap"
    );
}

#[test]
fn waits_order_modelled_time_too() {
    let rig = Rig::seeded(4);
    let (up, compute) = (rig.stream(), rig.stream());
    let (data, host) = (rig.alloc(1 << 20, up).unwrap(), Host::new(1 << 20));
    let (start, end) = (rig.event(), rig.event());
    rig.sim().record_spans(true);
    rig.upload(data, host, 1 << 18, up).unwrap();
    rig.record_event(start, up).unwrap();
    rig.wait_event(compute, start).unwrap();
    rig.add(data, 1 << 18, 1, compute).unwrap();
    rig.record_event(end, compute).unwrap();
    while !rig.query_event(end).unwrap() {}
    let spans = rig.sim().take_spans();
    assert!(spans[0].end_ns <= spans[1].start_ns, "{spans:?}");
    assert!(
        rig.sim().host_now_ns() >= spans[1].end_ns,
        "whoever sees it done is not earlier than it was"
    );
}

#[test]
fn a_graphs_edges_order_modelled_time() {
    let rig = Rig::new(SimConfig::new().kernel_ns_per_thread("tests::add", 2.0));
    let (s, side) = (rig.stream(), rig.stream());
    let (data, host) = (rig.alloc(1 << 20, s).unwrap(), Host::new(1 << 20));
    let [fork, joined] = [rig.event(), rig.event()];
    rig.begin_capture(s).unwrap();
    rig.upload(data, host, 1 << 18, s).unwrap();
    rig.record_event(fork, s).unwrap();
    rig.wait_event(side, fork).unwrap();
    rig.download(host, data, 1 << 18, side).unwrap();
    rig.record_event(joined, side).unwrap();
    rig.add(data, 1 << 10, 1, s).unwrap();
    rig.wait_event(s, joined).unwrap();
    rig.fill(data, &[1], 4, s).unwrap();
    let graph = rig.end_capture(s).unwrap();
    rig.sim().record_spans(true);
    rig.launch_graph(graph, s).unwrap();
    rig.launch_graph(graph, side).unwrap();
    rig.synchronize_stream(side).unwrap();
    let spans = rig.sim().take_spans();
    let [up, down, kernel, fill, again, ..] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(up.end_ns, down.start_ns);
    assert_eq!(up.end_ns, kernel.start_ns, "the branches overlap");
    assert_eq!(kernel.end_ns - kernel.start_ns, 1_500 + 2 * 1024);
    assert_eq!(fill.start_ns, down.end_ns.max(kernel.end_ns));
    assert!(
        again.start_ns >= fill.end_ns,
        "two launches of a graph never overlap"
    );
    assert!(rig.sim().host_now_ns() > spans[7].end_ns);
    let counters = rig.sim().counters();
    assert_eq!(
        (counters.bytes_to_device, counters.bytes_to_host),
        (2 << 20, 2 << 20)
    );
    assert_eq!((counters.operations_run, counters.operations_pending), (8, 0));
}

#[test]
fn synchronizing_an_event_takes_until_its_time() {
    let rig = Rig::seeded(4);
    let (s, event) = (rig.stream(), rig.event());
    let data = rig.alloc(8 << 20, s).unwrap();
    rig.fill(data, &[1], 8 << 20, s).unwrap();
    rig.record_event(event, s).unwrap();
    rig.synchronize_event(event).unwrap();
    assert!(rig.sim().host_now_ns() >= rig.sim().busy_ns(Engine::Compute));
}

#[test]
fn spans_of_pending_work_come_when_it_ran() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let s = rig.stream();
    let data = rig.alloc(4, s).unwrap();
    rig.sim().record_spans(true);
    rig.fill(data, &[1], 4, s).unwrap();
    assert_eq!(rig.sim().take_spans(), []);
    rig.synchronize_stream(s).unwrap();
    assert_eq!(rig.sim().take_spans().len(), 1);
    rig.sim().record_spans(false);
    rig.fill(data, &[1], 4, s).unwrap();
    rig.synchronize_stream(s).unwrap();
    assert_eq!(rig.sim().take_spans(), []);
}

#[test]
fn one_stream_overlaps_nothing() {
    let rig = Rig::seeded(2);
    let s = rig.stream();
    let (data, host) = (rig.alloc(1 << 20, s).unwrap(), Host::new(1 << 20));
    rig.sim().record_spans(true);
    for _ in 0..5 {
        rig.upload(data, host, 1 << 18, s).unwrap();
        rig.add(data, 1 << 18, 1, s).unwrap();
        rig.download(host, data, 1 << 18, s).unwrap();
    }
    rig.synchronize_stream(s).unwrap();
    let spans = rig.sim().take_spans();
    assert_eq!(spans.len(), 15);
    assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    let (copy, kernel) = (&spans[0], &spans[1]);
    assert_eq!(
        (copy.kind, copy.engine, copy.bytes),
        (SpanKind::CopyToDevice, Engine::ToDevice, 1 << 20)
    );
    assert_eq!(
        copy.end_ns - copy.start_ns,
        1_000 + ((1 << 20) as f64 / 55.0) as u64
    );
    assert_eq!(
        (kernel.kind, kernel.label, kernel.stream),
        (SpanKind::Kernel, "tests::add", s)
    );
    assert!(rig.sim().take_spans().is_empty());
}

#[test]
fn modelled_time_does_not_depend_on_the_order_of_the_bytes() {
    let times = |order, seed| {
        let rig = Rig::new(SimConfig::new().order(order).seed(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let (data, event) = (rig.alloc(1 << 12, a).unwrap(), rig.event());
        let start = rig.event();
        rig.record_event(start, a).unwrap();
        for i in 0..50 {
            let (s, other) = if i % 2 == 0 { (a, b) } else { (b, a) };
            rig.add(data, 1 << 10, i, s).unwrap();
            rig.record_event(event, s).unwrap();
            rig.wait_event(other, event).unwrap();
        }
        rig.synchronize_event(event).unwrap();
        (rig.elapsed_ms(start, event).unwrap(), rig.sim().host_now_ns())
    };
    let want = times(Order::Eager, 0);
    assert!(want.0 > 0.05);
    assert!((0..10).all(|seed| times(Order::Random, seed) == want && times(Order::Lazy, seed) == want));
}

#[test]
fn elapsed_time_is_the_kernels() {
    let model = Model {
        kernel_floor_ns: 0,
        kernel_ns_per_thread: 1000.0,
        ..Model::default()
    };
    let rig = Rig::new(SimConfig::new().model(model));
    let s = rig.stream();
    let (start, end) = (rig.event(), rig.event());
    let data = rig.alloc(8000, s).unwrap();
    assert!(rig.elapsed_ms(start, end).is_err(), "never recorded");
    // Work first, so that the host time of the calls is hidden.
    rig.add(data, 1000, 1, s).unwrap();
    rig.record_event(start, s).unwrap();
    rig.add(data, 2000, 1, s).unwrap();
    rig.record_event(end, s).unwrap();
    rig.synchronize_event(end).unwrap();
    assert_eq!(rig.elapsed_ms(start, end).unwrap(), 2.0);
    assert_eq!(rig.sim().counters().calls(Call::ElapsedMs), 2);
}

#[test]
fn elapsed_time_needs_timing_events_that_are_done() {
    use cuda_rt::driver::{ErrorCode, Events};
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let s = rig.stream();
    let (timed, plain) = (rig.event(), rig.driver.create_event(false).unwrap());
    rig.alloc(4, s).unwrap();
    rig.record_event(timed, s).unwrap();
    rig.record_event(plain, s).unwrap();
    assert_eq!(
        rig.elapsed_ms(timed, timed).unwrap_err().code(),
        ErrorCode::NOT_READY
    );
    rig.synchronize_stream(s).unwrap();
    assert_eq!(rig.elapsed_ms(timed, timed).unwrap(), 0.0);
    assert_eq!(
        rig.elapsed_ms(timed, plain).unwrap_err().code(),
        ErrorCode::INVALID_HANDLE
    );
}

#[test]
fn a_launch_costs_the_host_and_a_wait_brings_it_to_the_end() {
    let rig = Rig::seeded(1);
    let s = rig.stream();
    let data = rig.alloc(4 << 20, s).unwrap();
    let before = rig.sim().host_now_ns();
    rig.add(data, 1 << 20, 1, s).unwrap();
    assert_eq!(rig.sim().host_now_ns(), before + 2_400);
    rig.synchronize_stream(s).unwrap();
    assert!(rig.sim().host_now_ns() >= before + 2_400 + rig.sim().busy_ns(Engine::Compute));
    let now = rig.sim().host_now_ns();
    rig.sim().spend_host_ns(5);
    assert_eq!(rig.sim().host_now_ns(), now + 5);
}
