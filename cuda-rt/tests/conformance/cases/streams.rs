//! Order within a stream.

use std::sync::Arc;

use cuda_rt::driver::Driver;

use crate::support::{Rig, SLOW};

/// Runs every kind of work, each depending on the one before.
pub(crate) fn work_of_a_stream_runs_in_order(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (a, b) = (rig.block(4000, stream), rig.block(4000, stream));
    let input = rig.host_with(&7_u32.to_ne_bytes().repeat(1000));
    let (first, second) = (rig.host(4000), rig.host(4000));

    rig.step(rig.zeroed(4, stream), SLOW, 1, 1, stream);
    rig.upload(a, input, stream);
    rig.step(a, 0, 3, 1, stream); // 22
    rig.copy(b, a, stream);
    rig.fill(a, &5_u32.to_ne_bytes(), stream);
    rig.step(b, SLOW, 10, 2, stream); // 222
    rig.download(first, b, stream);
    rig.copy(b, a, stream);
    rig.step(b, 0, 2, 0, stream); // 10
    rig.download(second, b, stream);
    rig.synchronize(stream);
    assert_eq!(first.words(), [222; 1000]);
    assert_eq!(second.words(), [10; 1000]);
}

pub(crate) fn each_stream_keeps_its_own_order(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let chains: Vec<_> = (0..8)
        .map(|i| {
            let stream = rig.stream();
            (i, stream, rig.zeroed(64, stream), rig.host(64))
        })
        .collect();
    for term in 1..=20 {
        for &(i, stream, block, _) in &chains {
            rig.step(block, 1000 * u64::from(i), 3, term + i, stream);
        }
    }
    for &(_, stream, block, host) in &chains {
        rig.download(host, block, stream);
    }
    for &(i, stream, _, host) in &chains {
        rig.synchronize(stream);
        let expected = (1..=20).fold(0_u32, |value, term| value.wrapping_mul(3).wrapping_add(term + i));
        assert_eq!(host.words(), [expected; 16], "stream {i}");
    }
}

pub(crate) fn any_priority_is_accepted(driver: &Arc<dyn Driver>) {
    let (least_urgent, most_urgent) = driver.properties().priority_range;
    assert!(most_urgent <= least_urgent, "more urgent is lower");
    for priority in [i32::MIN, -100, most_urgent, -1, 0, 1, least_urgent, i32::MAX] {
        let stream = driver.create_stream(priority).expect("clamped");
        // SAFETY: the stream was just created.
        unsafe { driver.synchronize_stream(stream) }.expect("usable");
        // SAFETY: the stream is live, and not used again.
        unsafe { driver.destroy_stream(stream) }.expect("destroy");
    }
}

pub(crate) fn destroying_a_stream_lets_its_work_finish(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let other = rig.stream();
    let (block, host, event) = (rig.zeroed(4000, other), rig.host(4000), rig.event());
    rig.synchronize(other);

    let stream = driver.create_stream(0).expect("create");
    rig.step(block, SLOW, 0, 9, stream);
    rig.download(host, block, stream);
    rig.record(event, stream);
    // SAFETY: the stream is live, and not used again.
    unsafe { driver.destroy_stream(stream) }.expect("destroy");
    rig.synchronize_event(event);
    assert_eq!(host.words(), [9; 1000]);
}

pub(crate) fn synchronize_waits_for_all_of_a_stream(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (block, host) = (rig.zeroed(400, stream), rig.host(400));
    for _ in 0..5 {
        rig.step(block, SLOW, 1, 1, stream);
    }
    rig.download(host, block, stream);
    rig.synchronize(stream);
    assert_eq!(host.words(), [5; 100]);
    // Nothing is pending, so the call returns at once.
    rig.synchronize(stream);
}

pub(crate) fn query_is_true_once_all_of_a_stream_is_done(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    assert!(rig.query_stream(stream), "nothing was enqueued");
    let (block, host) = (rig.zeroed(400, stream), rig.host(400));
    rig.synchronize(stream);

    // Long enough that a host thread that was preempted still returns first.
    let steps = if rig.is_cuda() { 40 } else { 10 };
    for _ in 0..steps {
        rig.step(block, SLOW, 1, 1, stream);
    }
    rig.download(host, block, stream);
    // A simulated device may already have run all of it.
    assert!(
        !rig.is_cuda() || !rig.query_stream(stream),
        "done before a GPU can be"
    );
    rig.poll_stream(stream);
    assert_eq!(host.words(), [steps; 100]);
    assert!(rig.query_stream(stream), "stays done");
}

pub(crate) fn query_asks_one_stream_only(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (stream, other) = (rig.stream(), rig.stream());
    let (block, host, event) = (rig.zeroed(400, stream), rig.host(400), rig.event());
    rig.synchronize(stream);
    for _ in 0..10 {
        rig.step(block, SLOW, 1, 1, stream);
    }
    rig.record(event, stream);
    assert!(rig.query_stream(other), "it has no work");
    // A wait for another stream's work counts as work.
    rig.wait(other, event);
    rig.download(host, block, other);
    rig.poll_stream(other);
    assert_eq!(host.words(), [10; 100]);
}
