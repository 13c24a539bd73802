use cuda_rt::driver::{Hint, LeftOut, Tools as _};
use cuda_rt::simulator::{Order, SimConfig};

use crate::rig::{Host, Rig};

const ORDERS: [Order; 4] = [Order::Random, Order::Lazy, Order::Starve, Order::Eager];

#[test]
fn one_stream_is_first_in_first_out() {
    for (order, seed) in ORDERS
        .into_iter()
        .flat_map(|order| (0..20).map(move |seed| (order, seed)))
    {
        let rig = Rig::new(SimConfig::new().order(order).seed(seed));
        let (s, other) = (rig.stream(), rig.stream());
        let a = rig.alloc(16, s).unwrap();
        let b = rig.alloc(16, other).unwrap();
        let host = Host::with(&[1, 2, 3, 4]);
        rig.upload(a, host, 4, s).unwrap();
        for i in 1..20 {
            rig.add(a, 4, i, s).unwrap();
            rig.fill(b, &[7], 16, other).unwrap();
            if i == 10 {
                rig.fill(a, &[0; 4], 4, s).unwrap();
            }
        }
        assert_eq!(
            rig.read(a, 4, s),
            [(11..20).sum::<u32>(); 4],
            "{order:?}, seed {seed}"
        );
    }
}

/// Uploads on one stream, computes on a second, downloads on a third. Without `ordered` there are
/// no waits.
fn pipeline(order: Order, seed: u64, ordered: bool) -> Vec<u32> {
    let rig = Rig::new(SimConfig::new().order(order).seed(seed));
    let (up, compute, down) = (rig.stream(), rig.stream(), rig.stream());
    let hand_over = |from, to| {
        let event = rig.event();
        rig.record_event(event, from).unwrap();
        if ordered {
            rig.wait_event(to, event).unwrap();
        }
        // Destroying the event does not affect streams that already wait for it.
        rig.destroy_event(event).unwrap();
    };
    let (from, to) = (Host::with(&[1, 2, 3]), Host::new(12));
    let data = rig.alloc(12, up).unwrap();
    rig.upload(data, from, 3, up).unwrap();
    hand_over(up, compute);
    rig.add(data, 3, 10, compute).unwrap();
    hand_over(compute, down);
    rig.download(to, data, 3, down).unwrap();
    rig.synchronize_stream(down).unwrap();
    to.get(3)
}

#[test]
fn waits_order_streams() {
    for (order, seed) in ORDERS
        .into_iter()
        .flat_map(|order| (0..300).map(move |seed| (order, seed)))
    {
        assert_eq!(
            pipeline(order, seed, true),
            [11, 12, 13],
            "{order:?}, seed {seed}"
        );
    }
}

/// The seed chooses the starved stream: the first, which uploads, or the second, which computes.
#[test]
fn starving_one_of_two_streams_shows_the_missing_wait() {
    for seed in [0, 1, 16, 17] {
        assert_ne!(pipeline(Order::Starve, seed, false), [11, 12, 13], "seed {seed}");
    }
    // No work needs to come after the downloads.
    assert_eq!(pipeline(Order::Starve, 3, false), [11, 12, 13]);
}

/// A slow host finds all work done, but has not waited for it.
#[test]
fn a_slow_host_orders_nothing() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let (a, b) = (rig.stream(), rig.stream());
    let data = rig.alloc(16, a).unwrap();
    let _other = rig.alloc(16, b).unwrap();
    rig.sim().run_stream(a);
    assert_eq!(rig.sim().counters().operations_pending, 1);
    rig.sim().run_pending();
    assert_eq!(rig.sim().counters().operations_pending, 0);
    rig.fill(data, &[1], 16, b).unwrap();
    assert_eq!(rig.sim().races().len(), 1);
}

#[test]
fn a_missing_wait_gives_wrong_bytes() {
    for order in [Order::Random, Order::Lazy] {
        let wrong = (0..20)
            .filter(|seed| pipeline(order, *seed, false) != [11, 12, 13])
            .count();
        assert!(wrong >= 10, "{order:?}: only {wrong} of 20 seeds show it");
    }
    assert_eq!(
        pipeline(Order::Eager, 0, false),
        [11, 12, 13],
        "in the order of the calls it works by luck"
    );
}

#[test]
fn reading_before_the_download_is_done_gives_wrong_bytes() {
    let early = |seed| {
        let rig = Rig::seeded(seed);
        let s = rig.stream();
        let data = rig.alloc(4, s).unwrap();
        rig.fill(data, &[1, 0, 0, 0], 1, s).unwrap();
        let host = Host::new(4);
        rig.download(host, data, 1, s).unwrap();
        host.get(1) == [0]
    };
    assert!((0..20).filter(|seed| early(*seed)).count() >= 10);
}

#[test]
fn an_event_means_its_most_recent_record() {
    for seed in 0..50 {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let event = rig.event();
        assert!(rig.query_event(event).unwrap(), "never recorded counts as done");
        rig.synchronize_event(event).unwrap();
        rig.wait_event(b, event).unwrap();

        let data = rig.alloc(4, a).unwrap();
        rig.record_event(event, a).unwrap();
        rig.wait_event(b, event).unwrap();
        rig.fill(data, &[5, 0, 0, 0], 1, a).unwrap();
        rig.record_event(event, a).unwrap();
        // This wait is for the first record; the second record does not change it.
        rig.synchronize_stream(b).unwrap();
        assert_eq!(
            rig.sim().counters().operations_run,
            0,
            "the fill is after the first record"
        );
        rig.wait_event(b, event).unwrap();
        rig.add(data, 1, 1, b).unwrap();
        assert_eq!(rig.read(data, 1, b), [6], "seed {seed}");
        rig.synchronize_event(event).unwrap();
    }
}

#[test]
fn a_lazy_device_runs_only_what_someone_waits_for() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(4));
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    let data = streams.map(|s| rig.alloc(4, s).unwrap());
    let event = rig.event();
    rig.fill(data[0], &[1], 4, streams[0]).unwrap();
    rig.record_event(event, streams[0]).unwrap();
    rig.fill(data[0], &[2], 4, streams[0]).unwrap();
    rig.fill(data[2], &[3], 4, streams[2]).unwrap();
    rig.wait_event(streams[1], event).unwrap();
    rig.fill(data[1], &[4], 4, streams[1]).unwrap();
    rig.synchronize_stream(streams[1]).unwrap();
    assert_eq!(
        rig.sim().counters().operations_run,
        2,
        "the second fill of 0 and that of 2 were not needed"
    );
}

#[test]
fn a_loop_of_queries_ends() {
    for (order, seed) in ORDERS
        .into_iter()
        .flat_map(|order| (0..20).map(move |seed| (order, seed)))
    {
        let rig = Rig::new(SimConfig::new().order(order).seed(seed));
        let (s, other) = (rig.stream(), rig.stream());
        let data = rig.alloc(4, s).unwrap();
        let event = rig.event();
        for _ in 0..30 {
            rig.fill(data, &[1], 4, s).unwrap();
            rig.fill(data, &[1], 4, other).unwrap();
        }
        rig.record_event(event, s).unwrap();
        let queries = (1..).find(|_| rig.query_event(event).unwrap()).unwrap();
        assert!(queries <= 62, "{queries}");
    }
}

#[test]
fn pending_work_is_bounded() {
    for order in [Order::Random, Order::Lazy] {
        let rig = Rig::new(SimConfig::new().order(order).most_pending(100));
        let s = rig.stream();
        let data = rig.alloc(4, s).unwrap();
        for _ in 0..1000 {
            rig.fill(data, &[1], 4, s).unwrap();
            assert!(rig.sim().counters().operations_pending <= 100);
        }
    }
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    for seed in 0..20 {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(seed));
        let (gone, s) = (rig.stream(), rig.stream());
        let data = rig.alloc(4, gone).unwrap();
        rig.fill(data, &[9, 0, 0, 0], 1, gone).unwrap();
        let event = rig.event();
        rig.record_event(event, gone).unwrap();
        rig.destroy_stream(gone).unwrap();
        assert!(
            rig.destroy_stream(gone).is_err() && rig.record_event(event, gone).is_err(),
            "stale"
        );
        rig.wait_event(s, event).unwrap();
        assert_eq!(rig.read(data, 1, s), [9]);
    }
}

/// Runs a program with races, whose bytes show the order in which it ran.
fn trace(seed: u64) -> Vec<u32> {
    let rig = Rig::seeded(seed);
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    let data = rig.alloc(400, streams[0]).unwrap();
    rig.synchronize_stream(streams[0]).unwrap();
    for i in 0..100u32 {
        let s = streams[i as usize % 3];
        rig.fill(data, &i.to_ne_bytes(), 1, s).unwrap();
        rig.copy(
            cuda_rt::driver::DeviceAddress(data.0 + 4 * u64::from(i)),
            data,
            4,
            s,
        )
        .unwrap();
    }
    streams.iter().for_each(|s| rig.synchronize_stream(*s).unwrap());
    rig.read(data, 100, streams[0])
}

#[test]
fn the_seed_decides_the_order() {
    assert_eq!(trace(1), trace(1));
    assert!((2..10).any(|seed| trace(seed) != trace(1)));
}

#[test]
fn threads_share_a_device() {
    let rig = Rig::seeded(5);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                let s = rig.stream();
                for round in 0..200 {
                    let data = rig.alloc(64, s).unwrap();
                    rig.fill(data, &[thread, 0, 0, 0], 16, s).unwrap();
                    rig.add(data, 16, round, s).unwrap();
                    assert_eq!(rig.read(data, 16, s), [u32::from(thread) + round; 16]);
                    rig.free(data, s).unwrap();
                }
                rig.destroy_stream(s).unwrap();
            });
        }
    });
    let counters = rig.sim().counters();
    assert_eq!((counters.streams_live, counters.allocations_live), (0, 0));
}

/// Asserts nothing: prints how many small operations a second the device runs (`--release
/// --nocapture`).
#[test]
fn rate() {
    let rig = Rig::seeded(1);
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    let event = rig.event();
    let data = rig.alloc(256, streams[0]).unwrap();
    let started = std::time::Instant::now();
    let rounds = 50_000;
    for i in 0..rounds {
        let s = streams[i % 3];
        let temporary = rig.alloc(256, s).unwrap();
        rig.fill(data, &[1], 4, s).unwrap();
        rig.copy(temporary, data, 4, s).unwrap();
        rig.add(data, 1, 1, s).unwrap();
        rig.record_event(event, s).unwrap();
        rig.wait_event(streams[(i + 1) % 3], event).unwrap();
        rig.free(temporary, s).unwrap();
    }
    streams.iter().for_each(|s| rig.synchronize_stream(*s).unwrap());
    let rate = 7.0 * rounds as f64 / started.elapsed().as_secs_f64();
    println!("{:.2} M operations a second", rate / 1e6);
}

#[test]
fn a_hint_about_a_wait_orders_and_captures_nothing() {
    let left_out = |rig: &Rig, event, stream| {
        for call in [LeftOut::StreamWait(stream), LeftOut::Query, LeftOut::HostWait] {
            rig.driver.hint(Hint::LeftOut { event, call });
        }
    };
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let (first, second, event) = (rig.stream(), rig.stream(), rig.event());
    let data = [(); 2].map(|()| rig.alloc(4, first).unwrap());
    for data in data {
        rig.fill(data, &[1, 0, 0, 0], 1, first).unwrap();
    }
    rig.synchronize_stream(first).unwrap();

    // The event is pending: the hint is wrong, and neither stream waits nor runs.
    rig.add(data[0], 1, 10, first).unwrap();
    rig.record_event(event, first).unwrap();
    left_out(&rig, event, second);
    rig.copy(data[1], data[0], 4, second).unwrap();
    rig.synchronize_stream(second).unwrap();
    assert_eq!(rig.read(data[1], 1, second), [1], "read before the addition");

    // The event is captured: the stream stays outside of the capture.
    rig.synchronize_stream(first).unwrap();
    rig.begin_capture(first).unwrap();
    rig.record_event(event, first).unwrap();
    left_out(&rig, event, second);
    rig.add(data[1], 1, 10, second).unwrap();
    rig.synchronize_stream(second).unwrap();
    // The event is over, and the stream is captured: its capture goes on.
    let over = rig.event();
    rig.record_event(over, second).unwrap();
    rig.synchronize_event(over).unwrap();
    left_out(&rig, over, first);
    let graph = rig.end_capture(first).unwrap();
    assert_eq!(rig.read(data[1], 1, second), [11], "not recorded but run");
    rig.destroy_graph(graph).unwrap();
}
