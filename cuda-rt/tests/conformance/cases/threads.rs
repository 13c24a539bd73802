//! Calls from any thread. No thread has a context current before its first call.

use std::sync::Arc;
use std::thread;

use cuda_rt::driver::Driver;

use crate::support::{Rig, SLOW};

pub(crate) fn streams_of_many_threads(driver: &Arc<dyn Driver>) {
    thread::scope(|scope| {
        for number in 0..8_u32 {
            scope.spawn(move || {
                let rig = Rig::new(driver);
                let stream = rig.stream();
                let block = rig.zeroed(4000, stream);
                for round in 0..20 {
                    let event = rig.event();
                    let temporary = rig.alloc(4000, stream).expect("allocate");
                    rig.copy(temporary, block, stream);
                    rig.step(temporary, 1000, 1, number + round, stream);
                    rig.copy(block, temporary, stream);
                    rig.free(temporary, stream);
                    rig.record(event, stream);
                    rig.poll(event);
                }
                let expected: u32 = (0..20).map(|round| number + round).sum();
                assert_eq!(rig.read_words(block, stream), [expected; 1000]);
            });
        }
    });
}

/// Each call here is the first call of its thread.
pub(crate) fn a_handle_used_by_another_thread(driver: &Arc<dyn Driver>) {
    fn elsewhere<T: Send>(call: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(call).join().expect("the call succeeds"))
    }
    let rig = Rig::new(driver);
    let (stream, other, event) = (rig.stream(), rig.stream(), rig.timing_event());
    let (block, host) = (rig.zeroed(400, stream), rig.host(400));
    let (address, half) = (block.address, block.part(200, 200).address);
    rig.synchronize(stream);

    // SAFETY (of each block below): handles and memory are live, and one thread at a time uses
    // them.
    elsewhere(|| {
        // SAFETY: as above.
        unsafe { driver.fill(address, &[1, 0, 0, 0], 100, stream) }.expect("fill");
    });
    elsewhere(|| {
        // SAFETY: as above.
        unsafe { driver.record_event(event, stream) }.expect("record");
    });
    elsewhere(|| {
        // SAFETY: as above.
        unsafe { driver.wait_event(other, event) }.expect("wait");
    });
    elsewhere(|| {
        // SAFETY: as above; two halves of one block.
        unsafe { driver.copy(half, address, 200, other) }.expect("copy");
    });
    elsewhere(|| {
        // SAFETY: as above.
        unsafe { driver.synchronize_event(event) }.expect("synchronize");
    });
    // SAFETY: as above.
    assert!(elsewhere(|| unsafe { driver.query_event(event) }.expect("query")));
    // SAFETY: as above.
    let elapsed_ms = elsewhere(|| unsafe { driver.elapsed_ms(event, event) }.expect("elapsed"));
    assert_eq!(elapsed_ms, 0.0);
    elsewhere(|| driver.memory_info().expect("memory info"));
    // SAFETY: as above.
    let freed = elsewhere(|| unsafe { driver.alloc(512, other) }.expect("alloc"));
    // SAFETY: as above; not used again.
    elsewhere(|| unsafe { driver.free(freed, other) }.expect("free"));
    // SAFETY: as above.
    elsewhere(|| unsafe { driver.begin_capture(other) }.expect("begin"));
    // SAFETY: as above.
    let graph = elsewhere(|| unsafe { driver.end_capture(other) }.expect("end"));
    // SAFETY: as above.
    elsewhere(|| unsafe { driver.launch_graph(graph, other) }.expect("launch"));
    // SAFETY: as above; not used again.
    elsewhere(|| unsafe { driver.destroy_graph(graph) }.expect("destroy"));
    let extra = elsewhere(|| driver.create_stream(0).expect("create"));
    // SAFETY: as above; not used again.
    elsewhere(|| unsafe { driver.destroy_stream(extra) }.expect("destroy"));

    rig.download(host, block, other);
    rig.synchronize(other);
    assert_eq!(host.words(), [1; 100]);
}

pub(crate) fn a_handoff_between_threads(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let (producer, consumer) = (rig.stream(), rig.stream());
    let block = rig.zeroed(4000, producer);
    let (ready, done) = (rig.event(), rig.event());
    rig.record(done, producer);
    let host = rig.host(10 * 4000);
    let address = block.address;
    for round in 1..=10_u32 {
        rig.wait(producer, done);
        rig.step(block, SLOW / 10, 0, round, producer);
        rig.record(ready, producer);
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: both handles are live; the record happened before this thread started.
                unsafe { driver.wait_event(consumer, ready) }.expect("wait");
            });
        });
        rig.download(host.part((round as usize - 1) * 4000, 4000), block, consumer);
        rig.record(done, consumer);
    }
    rig.synchronize(consumer);
    let expected: Vec<u32> = (1..=10).flat_map(|round| [round; 1000]).collect();
    assert_eq!(host.words(), expected, "block at {address:?}");
}
