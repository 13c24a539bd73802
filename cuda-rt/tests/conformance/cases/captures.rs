//! Which calls a capture allows, collected from other test suites and bug reports; `captures.jsonl`
//! lists all of them.

use std::sync::Arc;

use cuda_rt::driver::{Backend, Driver, DriverResult, ErrorCode, RawStream};

use crate::support::{Block, Rig, SLOW};

/// Checks that the streams of a failed capture work, and that new captures work.
#[track_caller]
pub(super) fn works(rig: &Rig, streams: &[cuda_rt::driver::RawStream]) {
    for &stream in streams {
        let own = rig.zeroed(400, stream);
        rig.step(own, SLOW, 1, 1, stream);
        assert_eq!(rig.read_words(own, stream), [1; 100]);
        rig.begin_capture(stream);
        rig.step(own, 0, 2, 3, stream);
        let graph = rig.end_capture(stream).expect("a graph");
        rig.launch_graph(graph, stream);
        assert_eq!(rig.read_words(own, stream), [5; 100]);
        rig.destroy_graph(graph);
    }
}

/// HC01.
pub(crate) fn waiting_for_the_captured_stream_ends_the_capture(driver: &Arc<dyn Driver>) {
    // SAFETY: the stream is live.
    ends_the_capture(driver, |stream| unsafe { driver.synchronize_stream(stream) });
}

pub(crate) fn asking_the_captured_stream_ends_the_capture(driver: &Arc<dyn Driver>) {
    // SAFETY: the stream is live.
    ends_the_capture(driver, |stream| unsafe { driver.query_stream(stream) }.map(drop));
}

/// A stream whose capture has begun and holds one step, and the block of that step.
#[track_caller]
pub(super) fn a_captured_step(rig: &Rig) -> (RawStream, Block) {
    let stream = rig.stream();
    let block = rig.zeroed(400, stream);
    rig.synchronize(stream);
    rig.begin_capture(stream);
    rig.step(block, 0, 1, 1, stream);
    (stream, block)
}

fn ends_the_capture(driver: &Arc<dyn Driver>, call: impl FnOnce(RawStream) -> DriverResult<()>) {
    let rig = Rig::new(driver);
    let (stream, block) = a_captured_step(&rig);
    let error = call(stream).expect_err("it is captured");
    assert_eq!(error.code(), ErrorCode::STREAM_CAPTURE_UNSUPPORTED, "{error}");
    let error = rig.end_capture(stream).expect_err("it is no graph any more");
    assert_eq!(error.code(), ErrorCode::STREAM_CAPTURE_INVALIDATED, "{error}");
    assert!(!error.is_sticky());
    assert_eq!(rig.read_words(block, stream), [0; 100]);
    works(&rig, &[stream]);
}

/// HC06.
pub(crate) fn a_fork_that_goes_on_after_its_join_fails(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (main, side, fork, join) = (rig.stream(), rig.stream(), rig.event(), rig.event());
    let block = rig.zeroed(400, main);
    rig.synchronize(main);
    rig.begin_capture(main);
    rig.record(fork, main);
    rig.wait(side, fork);
    rig.step(block, 0, 1, 1, side);
    rig.record(join, side);
    rig.wait(main, join);
    rig.step(block, 0, 1, 1, side);
    let error = rig.end_capture(main).expect_err("the fork is not joined");
    assert_eq!(error.code(), ErrorCode::STREAM_CAPTURE_UNJOINED, "{error}");
    assert_eq!(rig.read_words(block, main), [0; 100]);
    works(&rig, &[main, side]);
}

/// HC07: captures of this driver are relaxed, and belong to no thread.
pub(crate) fn a_capture_may_end_on_another_thread(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, block) = a_captured_step(&rig);
    let graph = std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            // SAFETY: the capture was begun above, and the other thread waits.
            unsafe { driver.end_capture(stream) }
        });
        ended.join().expect("no panic").expect("a graph")
    });
    rig.launch_graph(graph, stream);
    assert_eq!(rig.read_words(block, stream), [1; 100]);
    rig.destroy_graph(graph);
}

/// A graph of two steps that do not commute, on a stream of its own.
fn steps(rig: &Rig, block: Block, term: u32) -> cuda_rt::driver::RawGraph {
    let captured = rig.stream();
    rig.begin_capture(captured);
    rig.step(block, SLOW, 2, term, captured);
    rig.step(block, SLOW, 3, 0, captured);
    rig.end_capture(captured).expect("a graph")
}

/// DC19.
pub(crate) fn launches_of_one_graph_are_ordered(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.zeroed(400, a);
    rig.synchronize(a);
    let graph = steps(&rig, block, 1);
    let mut expected = 0;
    for stream in [a, b, a, b] {
        rig.launch_graph(graph, stream);
        expected = (expected * 2 + 1) * 3;
    }
    assert_eq!(rig.read_words(block, b), [expected; 100]);
    rig.destroy_graph(graph);
}

/// DC20: nothing orders two graphs. A checker reports the race, and with an order the result is
/// right.
pub(crate) fn two_graphs_of_one_buffer_race_on_two_streams(driver: &Arc<dyn Driver>) {
    use cuda_rt::checker::{Check, Checked, Watch};

    let watch = Watch::new(Check::Record, None);
    let recorded: Arc<dyn Driver> = Checked::watching(Arc::clone(driver), Arc::clone(&watch));
    let rig = Rig::new(&recorded);
    let (a, b, event) = (rig.stream(), rig.stream(), rig.event());
    let block = rig.zeroed(400, a);
    rig.synchronize(a);
    let (one, other) = (steps(&rig, block, 1), steps(&rig, block, 5));
    rig.launch_graph(one, a);
    rig.record(event, a);
    rig.wait(b, event);
    rig.launch_graph(other, b);
    assert_eq!(rig.read_words(block, b), [(3 * 2 + 5) * 3; 100]);
    assert!(watch.races().is_empty(), "{:?}", watch.races());
    // The same without a wait. This checker records the race. The device's own checker denies it to
    // the next call, which ends the rig's work.
    rig.launch_graph(one, a);
    rig.launch_graph(other, b);
    assert!(!watch.races().is_empty(), "two graphs write one buffer");
    for graph in [one, other] {
        // SAFETY: the graph is live, and not used again.
        let destroyed = unsafe { recorded.destroy_graph(graph) };
        assert_eq!(
            destroyed.is_err(),
            driver.properties().backend == Backend::Simulated
        );
    }
}
