//! A GPU that is lost alone, beside another GPU. Simulated devices of one host are lost together,
//! so the tests run over a driver library that does nothing, and that has two devices.
#![cfg(all(target_os = "linux", feature = "cuda"))]
#![forbid(unsafe_code)]

mod null_libcuda;

use cuda_rt::{Device, Error, Handoff, Idle, PinnedBuffer, Scoped, Stream};
use null_libcuda::over_null_libcuda;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 4;

type Here<'id> = Stream<Compute<Scoped<'id>>>;
type Pending<'id> = Handoff<PinnedBuffer<u32, Idle<Scoped<'id>>>>;
type There<'id> = Stream<Other<Scoped<'id>>>;

/// Runs `body`, of the test `name`, with streams of two GPUs. A closure on the first stream panics
/// when it has written half of a buffer, which loses its GPU. To CUDA such a closure is over. It
/// runs when the host next waits: until then the first stream gets an event and a handoff behind
/// it, and the second stream waits for the event.
///
/// A lost GPU stays lost, so each test has a process of its own.
fn with_two_gpus(
    name: &str,
    keep_redundant: bool,
    body: impl for<'a, 'b> FnOnce(&Here<'a>, &There<'b>, Pending<'a>),
) {
    over_null_libcuda(name, || {
        let ran = Device::with_gpu(0, |first| {
            Device::with_gpu(1, |second| {
                first.keep_redundant_edges(keep_redundant);
                let (here, there) = (first.stream().unwrap(), second.stream().unwrap());
                let mut host = here.adopt(first.pinned_from(&[0; LEN]).unwrap()).unwrap();
                let enqueued = here.host_fn(&mut host, |host: &mut [u32]| {
                    host[..LEN / 2].fill(1);
                    panic!("half-way");
                });
                enqueued.unwrap();
                let event = here.record_event().unwrap();
                let handoff = here.release(host).unwrap();
                there.wait_event_of_peer(&event).unwrap();
                body(&here, &there, handoff);
            })
        });
        ran.unwrap().unwrap();
    });
}

fn is_the_loss<T>(answer: Result<T, impl Into<Error>>) {
    let error: Error = answer.err().expect("the GPU is lost").into();
    assert!(error.to_string().contains("half-way"), "{error}");
}

#[test]
fn a_wait_for_a_stream_of_another_gpu_answers_for_no_work_of_a_lost_gpu() {
    const NAME: &str = "a_wait_for_a_stream_of_another_gpu_answers_for_no_work_of_a_lost_gpu";
    with_two_gpus(NAME, false, |here, there, handoff| {
        there.synchronize().unwrap();
        is_the_loss(handoff.is_done());
        is_the_loss(handoff.synchronize());
        is_the_loss(here.synchronize());
    });
}

#[test]
fn a_wait_for_an_event_of_another_gpu_answers_for_no_work_of_a_lost_gpu() {
    const NAME: &str = "a_wait_for_an_event_of_another_gpu_answers_for_no_work_of_a_lost_gpu";
    with_two_gpus(NAME, false, |_, there, handoff| {
        there.record_event().unwrap().synchronize().unwrap();
        is_the_loss(handoff.is_done());
        is_the_loss(handoff.synchronize());
    });
}

#[test]
fn another_gpu_that_is_asked_answers_for_no_work_of_a_lost_gpu() {
    const NAME: &str = "another_gpu_that_is_asked_answers_for_no_work_of_a_lost_gpu";
    with_two_gpus(NAME, false, |_, there, handoff| {
        assert!(there.is_done().unwrap());
        let theirs = there.release(there.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
        assert!(theirs.is_done().unwrap());
        is_the_loss(handoff.is_done());
        is_the_loss(handoff.query());
    });
}

/// The answers are the same where all records and waits are made.
#[test]
fn a_gpu_that_keeps_redundant_edges_gives_the_same_answers() {
    const NAME: &str = "a_gpu_that_keeps_redundant_edges_gives_the_same_answers";
    with_two_gpus(NAME, true, |here, there, handoff| {
        there.synchronize().unwrap();
        is_the_loss(handoff.is_done());
        is_the_loss(handoff.synchronize());
        is_the_loss(here.synchronize());
    });
}

/// The GPU's own answer is an error, so nothing is over for the host.
#[test]
fn a_wait_for_a_lost_gpu_does_not_say_that_its_work_is_over() {
    const NAME: &str = "a_wait_for_a_lost_gpu_does_not_say_that_its_work_is_over";
    with_two_gpus(NAME, false, |here, _, handoff| {
        is_the_loss(here.synchronize());
        is_the_loss(handoff.is_done());
        is_the_loss(handoff.synchronize());
    });
}
