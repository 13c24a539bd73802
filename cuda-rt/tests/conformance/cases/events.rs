//! Order between streams, and how the host learns about it.

use std::sync::Arc;

use cuda_rt::driver::Driver;

use crate::support::{Rig, SLOW};

const WORDS: usize = 1024;
const BYTES: usize = 4 * WORDS;

pub(crate) fn a_wait_orders_a_read_after_a_write(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (writer, reader, event) = (rig.stream(), rig.stream(), rig.event());
    let (block, host) = (rig.zeroed(BYTES, writer), rig.host(BYTES));
    rig.synchronize(writer);

    rig.step(block, SLOW, 0, 41, writer);
    rig.record(event, writer);
    rig.wait(reader, event);
    rig.download(host, block, reader);
    rig.synchronize(reader);
    assert_eq!(host.words(), [41; WORDS]);
}

pub(crate) fn a_wait_orders_a_write_after_a_read(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (writer, reader, event) = (rig.stream(), rig.stream(), rig.event());
    let (block, delay, host) = (rig.block(BYTES, reader), rig.zeroed(4, reader), rig.host(BYTES));
    rig.fill(block, &[1, 0, 0, 0], reader);
    rig.synchronize(reader);

    rig.step(delay, SLOW, 1, 1, reader);
    rig.download(host, block, reader);
    rig.record(event, reader);
    rig.wait(writer, event);
    rig.fill(block, &[0xFF], writer);
    rig.synchronize(writer);
    assert_eq!(host.words(), [1; WORDS]);
}

pub(crate) fn a_wait_orders_a_write_after_a_write(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (first, second, event) = (rig.stream(), rig.stream(), rig.event());
    let block = rig.zeroed(BYTES, first);
    rig.step(block, SLOW, 0, 1, first);
    rig.record(event, first);
    rig.wait(second, event);
    rig.step(block, 0, 5, 2, second);
    assert_eq!(rig.read_words(block, second), [7; WORDS]);
}

pub(crate) fn a_wait_covers_the_latest_record(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (writer, reader, event) = (rig.stream(), rig.stream(), rig.event());
    let block = rig.zeroed(BYTES, writer);
    rig.record(event, writer);
    rig.step(block, SLOW, 0, 1, writer);
    rig.record(event, writer);
    rig.step(block, SLOW, 0, 2, writer);
    rig.record(event, writer);
    rig.wait(reader, event);
    assert_eq!(rig.read_words(block, reader), [2; WORDS]);
}

/// If a wait followed the event to its next record, the two streams would wait for each other.
pub(crate) fn a_wait_keeps_the_record_it_saw(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (a, b) = (rig.stream(), rig.stream());
    let (there, back) = (rig.event(), rig.event());
    let block = rig.zeroed(BYTES, a);
    rig.step(block, SLOW, 0, 1, a);
    rig.record(there, a);
    rig.wait(b, there);
    rig.step(block, SLOW, 3, 0, b);
    rig.record(back, b);
    rig.wait(a, back);
    rig.step(block, SLOW, 1, 4, a);
    rig.record(there, a);
    rig.wait(b, there);
    assert_eq!(rig.read_words(block, b), [7; WORDS]);
}

pub(crate) fn an_event_never_recorded_holds_nothing_up(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, event) = (rig.stream(), rig.event());
    assert!(rig.query(event), "an event never recorded counts as done");
    rig.synchronize_event(event);
    rig.wait(stream, event);
    let block = rig.zeroed(BYTES, stream);
    assert_eq!(rig.read_words(block, stream), [0; WORDS]);
}

pub(crate) fn many_streams_wait_for_one_event(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (writer, event) = (rig.stream(), rig.event());
    let block = rig.zeroed(BYTES, writer);
    rig.step(block, SLOW, 0, 6, writer);
    rig.record(event, writer);
    let readers: Vec<_> = (0..6).map(|_| (rig.stream(), rig.host(BYTES))).collect();
    for &(reader, host) in &readers {
        rig.wait(reader, event);
        rig.download(host, block, reader);
    }
    for (reader, host) in readers {
        rig.synchronize(reader);
        assert_eq!(host.words(), [6; WORDS]);
    }
}

pub(crate) fn a_query_turns_true_once_the_record_is_done(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, event) = (rig.stream(), rig.event());
    let (block, host) = (rig.zeroed(BYTES, stream), rig.host(BYTES));
    rig.synchronize(stream);

    // Long enough that a host thread that was preempted still returns first.
    let steps = if rig.is_cuda() { 40 } else { 10 };
    for _ in 0..steps {
        rig.step(block, SLOW, 1, 1, stream);
    }
    rig.download(host, block, stream);
    rig.record(event, stream);
    // A simulated device may already have run all of it.
    assert!(!rig.is_cuda() || !rig.query(event), "done before a GPU can be");
    rig.poll(event);
    assert_eq!(host.words(), [steps; WORDS]);
    assert!(rig.query(event), "stays done");
}

pub(crate) fn synchronize_waits_for_the_record_only(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, first, second) = (rig.stream(), rig.event(), rig.event());
    let (block, host) = (rig.zeroed(BYTES, stream), rig.host(BYTES));
    rig.step(block, SLOW, 0, 3, stream);
    rig.download(host, block, stream);
    rig.record(first, stream);
    for _ in 0..10 {
        rig.step(block, SLOW, 1, 1, stream);
    }
    rig.record(second, stream);
    rig.synchronize_event(first);
    assert!(
        !rig.is_cuda() || !rig.query(second),
        "waited for more than was recorded"
    );
    assert_eq!(host.words(), [3; WORDS]);
    assert_eq!(rig.read_words(block, stream), [13; WORDS]);
}

pub(crate) fn elapsed_time_is_positive(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (start, middle, end) = (rig.timing_event(), rig.timing_event(), rig.timing_event());
    let block = rig.zeroed(BYTES, stream);
    rig.record(start, stream);
    rig.step(block, SLOW, 1, 1, stream);
    rig.record(middle, stream);
    rig.step(block, SLOW, 1, 1, stream);
    rig.record(end, stream);
    rig.synchronize_event(end);
    // SAFETY: the rig keeps both events live; both have timing, were recorded, and are done.
    let elapsed = |from, to| unsafe { driver.elapsed_ms(from, to) }.expect("elapsed");
    let (half, whole) = (elapsed(start, middle), elapsed(start, end));
    assert!(half > 0.0 && whole > half, "half {half} ms, whole {whole} ms");
    assert_eq!(elapsed(start, start), 0.0);
    if rig.is_cuda() {
        // 10 million cycles take 5 ms at 2 GHz, which no GPU exceeds by far.
        assert!(half > 2.0, "a kernel of {SLOW} cycles took {half} ms");
    }
}

pub(crate) fn destroying_an_event_keeps_the_order_it_made(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (writer, reader) = (rig.stream(), rig.stream());
    let block = rig.zeroed(BYTES, writer);
    let event = driver.create_event(false).expect("create");
    rig.step(block, SLOW, 0, 8, writer);
    rig.record(event, writer);
    rig.wait(reader, event);
    // SAFETY: the event is live, and not used again.
    unsafe { driver.destroy_event(event) }.expect("destroy");
    // A new event takes the destroyed event's slot, if slots are reused.
    let other = rig.event();
    rig.record(other, reader);
    assert_eq!(rig.read_words(block, reader), [8; WORDS]);
}
