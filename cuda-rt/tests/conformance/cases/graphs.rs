//! Capture and replay.

use std::sync::Arc;

use cuda_rt::driver::{Driver, ErrorCode};

use super::captures::{a_captured_step, works};
use crate::support::{Rig, SLOW};

pub(crate) fn a_captured_stream_runs_nothing_until_launched(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, other) = (rig.stream(), rig.stream());
    let block = rig.zeroed(400, stream);
    rig.synchronize(stream);

    rig.begin_capture(stream);
    rig.step(block, 0, 1, 1, stream);
    assert_eq!(rig.read_words(block, other), [0; 100]);
    let graph = rig.end_capture(stream).expect("a graph");
    assert_eq!(rig.read_words(block, other), [0; 100]);

    rig.launch_graph(graph, stream);
    assert_eq!(rig.read_words(block, stream), [1; 100]);
    rig.destroy_graph(graph);
}

pub(crate) fn replays_in_stream_order(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (captured, stream) = (rig.stream(), rig.stream());
    let (block, copy) = (rig.zeroed(400, stream), rig.zeroed(400, stream));
    let (input, output) = (rig.host_with(&2_u32.to_ne_bytes().repeat(100)), rig.host(400));
    rig.synchronize(stream);

    rig.begin_capture(captured);
    rig.upload(block, input, captured);
    rig.step(block, SLOW, 3, 1, captured); // 7
    rig.copy(copy, block, captured);
    rig.fill(block, &[9, 0, 0, 0, 0, 0, 0, 0], captured);
    rig.step(copy, 0, 10, 0, captured); // 70
    rig.download(output, copy, captured);
    let graph = rig.end_capture(captured).expect("a graph");

    for factor in 1..=3 {
        rig.step(copy, SLOW, 0, 1000, stream);
        rig.launch_graph(graph, stream);
        rig.step(copy, 0, factor, 5, stream);
        assert_eq!(rig.read_words(copy, stream), [70 * factor + 5; 100]);
        assert_eq!(output.words(), [70; 100]);
        assert_eq!(rig.read_words(block, stream), [9, 0].repeat(50));
        input.write(&2_u32.to_ne_bytes().repeat(100));
    }
    // The graph reads its input when it runs.
    input.write(&4_u32.to_ne_bytes().repeat(100));
    rig.launch_graph(graph, stream);
    rig.launch_graph(graph, stream);
    rig.synchronize(stream);
    assert_eq!(output.words(), [130; 100]);
    rig.destroy_graph(graph);
}

pub(crate) fn streams_fork_and_join(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (main, side) = (rig.stream(), rig.stream());
    let (fork, join) = (rig.event(), rig.event());
    let (a, b) = (rig.zeroed(400, main), rig.zeroed(400, main));
    rig.synchronize(main);

    rig.begin_capture(main);
    rig.step(a, SLOW, 0, 5, main);
    rig.record(fork, main);
    rig.wait(side, fork);
    rig.copy(b, a, side);
    rig.step(b, SLOW, 2, 1, side); // 11
    rig.record(join, side);
    rig.wait(main, join);
    rig.step(b, 0, 3, 0, main); // 33
    let graph = rig.end_capture(main).expect("a graph");

    for _ in 0..3 {
        rig.fill(b, &[0], main);
        rig.launch_graph(graph, main);
        assert_eq!(rig.read_words(b, main), [33; 100]);
    }
    // Neither stream captures any more, and the events can be used again.
    rig.step(a, SLOW, 0, 1, side);
    rig.record(fork, side);
    rig.wait(main, fork);
    assert_eq!(rig.read_words(a, main), [1; 100]);
    rig.destroy_graph(graph);
}

pub(crate) fn memory_allocated_inside_is_freed_at_each_launch(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = if rig.is_cuda() { 4 << 20 } else { 16 << 10 };
    let output = rig.zeroed(bytes, stream);
    rig.synchronize(stream);

    rig.begin_capture(stream);
    let inner = rig.alloc(bytes, stream).expect("allocate in a capture");
    rig.fill(inner, &[3, 0, 0, 0], stream);
    rig.step(inner, 0, 5, 1, stream);
    rig.copy(output, inner, stream);
    rig.free(inner, stream);
    // The next launch frees this block.
    let left = rig.alloc(bytes, stream).expect("allocate in a capture");
    rig.fill(left, &[1], stream);
    let graph = rig.end_capture(stream).expect("a graph");

    rig.launch_graph(graph, stream);
    rig.synchronize(stream);
    let before = driver.memory_info().expect("memory info");
    for _ in 0..20 {
        rig.fill(output, &[0], stream);
        rig.launch_graph(graph, stream);
        assert!(rig.read_words(output, stream).iter().all(|&word| word == 16));
    }
    if !rig.is_cuda() {
        // On a GPU, cases that run at the same time allocate too.
        assert_eq!(driver.memory_info().expect("memory info"), before);
    }
    rig.destroy_graph(graph);
}

pub(crate) fn a_graph_may_be_destroyed_while_it_runs(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let block = rig.zeroed(400, stream);
    rig.synchronize(stream);
    rig.begin_capture(stream);
    rig.step(block, SLOW, 2, 1, stream);
    rig.step(block, SLOW, 2, 1, stream);
    let graph = rig.end_capture(stream).expect("a graph");
    rig.launch_graph(graph, stream);
    rig.launch_graph(graph, stream);
    rig.destroy_graph(graph);
    assert_eq!(rig.read_words(block, stream), [15; 100]);
}

pub(crate) fn an_empty_capture_is_a_graph(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    rig.begin_capture(stream);
    let graph = rig.end_capture(stream).expect("a graph of nothing");
    rig.launch_graph(graph, stream);
    rig.synchronize(stream);
    rig.destroy_graph(graph);
}

pub(crate) fn an_unjoined_fork_fails_and_the_streams_go_on(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (main, side, fork) = (rig.stream(), rig.stream(), rig.event());
    let block = rig.zeroed(400, main);
    rig.synchronize(main);
    for _ in 0..2 {
        rig.begin_capture(main);
        rig.record(fork, main);
        rig.wait(side, fork);
        rig.step(block, 0, 1, 1, side);
        let error = rig.end_capture(main).expect_err("the fork is not joined");
        assert_eq!(error.code(), ErrorCode::STREAM_CAPTURE_UNJOINED, "{error}");
        assert!(!error.is_sticky());
    }
    assert_eq!(rig.read_words(block, main), [0; 100]);
    works(&rig, &[main, side]);
}

/// While one stream is captured, other threads and other streams work, and their work stays out of
/// the capture.
pub(crate) fn other_threads_work_while_a_stream_is_captured(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, block) = a_captured_step(&rig);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let rig = Rig::new(driver);
                let (stream, event) = (rig.stream(), rig.event());
                let block = rig.zeroed(1 << 20, stream);
                rig.step(block, SLOW, 1, 7, stream);
                rig.record(event, stream);
                rig.poll(event);
                driver.memory_info().expect("memory info");
                assert!(rig.read_words(block, stream).iter().all(|&word| word == 7));
            });
        });
    }
    let other = rig.stream();
    rig.step(rig.zeroed(400, other), SLOW, 1, 1, other);
    rig.synchronize(other);
    let graph = rig.end_capture(stream).expect("a graph");
    rig.launch_graph(graph, stream);
    rig.launch_graph(graph, stream);
    assert_eq!(rig.read_words(block, stream), [2; 100]);
    rig.destroy_graph(graph);
}

pub(crate) fn an_update_changes_later_launches_only(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (captured, stream) = (rig.stream(), rig.stream());
    let block = rig.zeroed(400, stream);
    let (input, output) = (rig.host(400), rig.host(400));
    let outputs = [0; 3].map(|_| rig.zeroed(400, stream));
    rig.synchronize(stream);
    let record = |fill: u8, term: u32, to| {
        rig.begin_capture(captured);
        rig.upload(block, input, captured);
        rig.fill(block, &[fill, 0, 0, 0], captured);
        rig.step(block, SLOW, 2, term, captured);
        rig.copy(to, block, captured);
        rig.download(output, to, captured);
    };
    record(1, 1, outputs[0]);
    let graph = rig.end_capture(captured).expect("a graph");
    rig.launch_graph(graph, stream); // 3
    record(2, 1, outputs[1]);
    rig.update_graph(graph, captured).expect("an update");
    rig.launch_graph(graph, stream); // 5
    record(3, 4, outputs[2]);
    rig.update_graph(graph, captured).expect("an update");
    rig.launch_graph(graph, stream); // 10
    for (to, expected) in outputs.into_iter().zip([3, 5, 10]) {
        assert_eq!(rig.read_words(to, stream), [expected; 100]);
    }
    assert_eq!(output.words(), [10; 100]);
    // The stream works after its captures, and the last recording does not run by itself.
    rig.step(block, 0, 0, 7, captured);
    assert_eq!(rig.read_words(block, captured), [7; 100]);
    rig.destroy_graph(graph);
}

pub(crate) fn an_update_to_other_work_is_refused(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (block, other) = (rig.zeroed(400, stream), rig.zeroed(400, stream));
    rig.synchronize(stream);
    rig.begin_capture(stream);
    rig.step(block, 0, 1, 1, stream);
    let graph = rig.end_capture(stream).expect("a graph");
    type Work<'a> = &'a dyn Fn();
    let works: [Work<'_>; 3] = [
        &|| {
            rig.step(block, 0, 1, 5, stream);
            rig.step(block, 0, 1, 5, stream);
        },
        &|| rig.copy(block, other, stream),
        &|| {},
    ];
    for work in works {
        rig.begin_capture(stream);
        work();
        let error = rig.update_graph(graph, stream).expect_err("other work");
        assert_eq!(error.code(), ErrorCode::GRAPH_EXEC_UPDATE_FAILURE, "{error}");
        assert!(!error.is_sticky());
        rig.fill(block, &[0], stream);
        rig.launch_graph(graph, stream);
        assert_eq!(rig.read_words(block, stream), [1; 100]);
    }
    rig.destroy_graph(graph);
}

pub(crate) fn a_launch_is_set_for_later_replays_only(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (main, side) = (rig.stream(), rig.stream());
    let (fork, join) = (rig.event(), rig.event());
    let (a, b, c) = (
        rig.zeroed(400, main),
        rig.zeroed(400, main),
        rig.zeroed(4000, main),
    );
    rig.synchronize(main);
    let record = |term| {
        rig.begin_capture(main);
        rig.step(a, SLOW, 1, term, main);
        let first = rig.captured_node(main).expect("a node");
        rig.record(fork, main);
        rig.wait(side, fork);
        rig.step(b, SLOW, 1, 10, side);
        let second = rig.captured_node(side).expect("a node");
        assert_ne!(first, second);
        rig.step(a, 0, 1, 100, main);
        rig.record(join, side);
        rig.wait(main, join);
        (first, second)
    };
    let (first, second) = record(1);
    let graph = rig.end_capture(main).expect("a graph");
    rig.launch_graph(graph, main); // a += 101, b += 10
    rig.set_step((graph, first), a, 0, 1, 2);
    rig.launch_graph(graph, main); // a += 102, b += 10
    // Another block, and more threads.
    rig.set_step((graph, second), c, SLOW, 1, 1);
    rig.launch_graph(graph, main); // a += 102, c += 1
    assert_eq!(rig.read_words(a, main), [305; 100]);
    assert_eq!(rig.read_words(b, main), [20; 100]);
    assert_eq!(rig.read_words(c, main), [1; 1000]);
    // The nodes of the first capture stay valid.
    record(3);
    rig.update_graph(graph, main).expect("an update");
    rig.launch_graph(graph, main); // a += 103, b += 10
    rig.set_step((graph, first), a, 0, 1, 7);
    rig.launch_graph(graph, main); // a += 107, b += 10
    assert_eq!(rig.read_words(a, main), [515; 100]);
    assert_eq!(rig.read_words(b, main), [40; 100]);
    assert_eq!(rig.read_words(c, main), [1; 1000]);
    rig.captured_node(main).expect_err("it is not captured");
    rig.destroy_graph(graph);
}

pub(crate) fn a_launch_is_set_in_a_graph_that_allocates(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let output = rig.zeroed(4096, stream);
    rig.synchronize(stream);
    rig.begin_capture(stream);
    let inner = rig.alloc(4096, stream).expect("allocate in a capture");
    rig.fill(inner, &[3, 0, 0, 0], stream);
    rig.step(inner, SLOW, 5, 1, stream);
    let node = rig.captured_node(stream).expect("a node");
    rig.copy(output, inner, stream);
    rig.free(inner, stream);
    let graph = rig.end_capture(stream).expect("a graph");
    for term in 0..4 {
        rig.set_step((graph, node), inner, 0, 5, term);
        rig.launch_graph(graph, stream);
        assert_eq!(rig.read_words(output, stream), [15 + term; 1024]);
    }
    rig.destroy_graph(graph);
}
