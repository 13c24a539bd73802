//! Streams that are known at run time: their names and reuse, and what they keep.
#![forbid(unsafe_code)]

mod attacks;
mod tensors;

use std::collections::HashMap;

use cuda_rt::simulator::{Call, Counters, SimConfig};
use cuda_rt::{AnyDevice, AnyStream, Device, DeviceBuffer, Error, Idle, Kept, Live, Priority};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;
use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

/// A buffer that a stream keeps.
pub(crate) type KeptBuffer = Kept<DeviceBuffer<u32, Idle<AnyDevice>>>;

pub(crate) fn stream<D: Live>(gpu: &Device<D>, name: &str) -> AnyStream {
    gpu.create_stream(name, Priority::Low).unwrap()
}

/// A buffer of `LEN` times `value`, kept by `on`.
pub(crate) fn kept(on: &AnyStream, value: u32) -> KeptBuffer {
    on.run(|s| s.keep(filled(s, value)))
}

/// The elements, read on the stream that keeps them.
pub(crate) fn elements(of: &KeptBuffer) -> Vec<u32> {
    of.stream().run(|s| read(&s.device(), s, &s.by_ref(of).unwrap()))
}

/// The calls that `work` makes.
fn calls_of<D>(gpu: &Device<D>, work: impl FnOnce()) -> Vec<(Call, u64)> {
    let counters = || -> Counters { gpu.simulator().unwrap().counters() };
    let before = counters();
    work();
    let after = counters();
    let made = |call: &Call| (*call, after.calls(*call) - before.calls(*call));
    Call::ALL
        .iter()
        .map(made)
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn streams_and_buffers_are_held_in_a_vec_of_structs() {
    struct Worker {
        stream: AnyStream,
        sums: KeptBuffer,
    }
    for_each_device(|gpu| {
        let mut workers: Vec<Worker> = (0..5)
            .map(|value| {
                let stream = stream(gpu, &format!("worker {value}"));
                let sums = kept(&stream, value);
                Worker { stream, sums }
            })
            .collect();
        for round in 0..3 {
            for Worker { stream, sums } in &mut workers {
                stream.run(|s| {
                    let mut sums = s.view(sums).unwrap();
                    let (left, right) = sums.split_at_mut(LEN / 2);
                    s.copy(left, right).unwrap();
                    s.fill(left, round).unwrap();
                });
            }
        }
        for (value, Worker { stream, sums }) in (0..).zip(workers) {
            assert_eq!(stream.name(), format!("worker {value}"));
            let data = stream.run(|s| read(&s.device(), s, &s.open(sums).unwrap()));
            assert_eq!(data, [[2; LEN / 2], [1; LEN / 2]].concat());
        }
    });
}

/// The cost where the stream stays the same: nothing, however it is opened.
#[test]
fn what_stays_on_its_stream_costs_no_call_of_the_driver() {
    Device::simulated(SimConfig::new(), |gpu| {
        let worker = stream(&gpu, "worker");
        let mut held = Some(kept(&worker, 1));
        let made = calls_of(&gpu, || {
            for _ in 0..10 {
                worker.run(|s| {
                    let bundle = s.open(held.take().unwrap()).unwrap();
                    let bundle = s.open_ordered(s.keep(bundle)).unwrap();
                    let mut again = s.keep(bundle);
                    assert_eq!(s.by_ref(&again).unwrap().len(), LEN);
                    assert_eq!(s.view(&mut again).unwrap().len(), LEN);
                    let len = s.view_ordered(&mut again, |view| view.len());
                    assert_eq!(len.unwrap(), LEN);
                    let len = s.by_ref_ordered(&again, |view| view.len());
                    assert_eq!(len.unwrap(), LEN);
                    assert_eq!(again.peek().len(), LEN);
                    held = Some(again);
                });
                assert!(worker.run_on(&gpu, |s| s.to_any() == worker).unwrap());
            }
        });
        assert_eq!(made, []);
        assert_eq!(elements(&held.unwrap()), [1; LEN]);
    })
    .unwrap();
}

/// The cost where another stream takes over or borrows: what a handoff and a loan cost.
#[test]
fn another_stream_costs_a_handoff_or_a_loan() {
    Device::simulated(SimConfig::new(), |gpu| {
        let (one, two) = (stream(&gpu, "one"), stream(&gpu, "two"));
        let mut held = kept(&one, 1);
        // The pool of events has two events from here on.
        two.run(|s| s.by_ref_ordered(&held, |_| ()).unwrap());
        let borrowed = calls_of(&gpu, || two.run(|s| s.by_ref_ordered(&held, |_| ()).unwrap()));
        assert_eq!(borrowed, [(Call::WaitEvent, 2), (Call::RecordEvent, 2)]);
        let borrowed = calls_of(&gpu, || {
            two.run(|s| s.view_ordered(&mut held, |_| ()).unwrap());
        });
        assert_eq!(borrowed, [(Call::WaitEvent, 2), (Call::RecordEvent, 2)]);
        let mut moved = None;
        let taken = calls_of(&gpu, || {
            moved = Some(two.run(|s| s.keep(s.open_ordered(held).unwrap())));
        });
        assert_eq!(taken, [(Call::WaitEvent, 1), (Call::RecordEvent, 1)]);
        assert_eq!(moved.unwrap().stream(), &two);
    })
    .unwrap();
}

#[test]
fn a_bundle_of_another_stream_is_refused_and_comes_back() {
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "first stream"), stream(gpu, "second stream"));
        let mut held = kept(&one, 7);
        let refused = two.run(|s| s.open(held).map(drop)).unwrap_err();
        let text = refused.to_string();
        let named = |error: &Error| {
            matches!(error, Error::OtherStream { owner, asked, .. }
                if owner.contains("first stream") && asked.contains("second stream"))
        };
        assert!(named(&refused.error), "{text}");
        assert!(
            text.contains("first stream") && text.contains("second stream"),
            "{text}"
        );
        held = refused.value;
        two.run(|s| {
            let error = s.view(&mut held).map(drop).unwrap_err();
            assert!(named(&error), "{error}");
            let error = s.by_ref(&held).map(drop).unwrap_err();
            assert!(named(&error), "{error}");
        });
        assert_eq!(elements(&held), [7; LEN]);
    });
}

/// H01 to H03 at run time: `two` reads and writes behind the pending work of `one`, and `one` again
/// behind the work of `two`.
#[test]
fn h01_another_stream_waits_where_it_is_ordered() {
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "one"), stream(gpu, "two"));
        let mut held = kept(&one, 1);
        for round in 0..5 {
            one.run(|s| s.fill(&mut s.view(&mut held).unwrap(), round).unwrap());
            let copy = two.run(|s| {
                let mut copy = s.alloc_zeroed::<u32>(LEN).unwrap();
                s.by_ref_ordered(&held, |view| s.copy(&view, &mut copy).unwrap())
                    .unwrap();
                s.keep(copy)
            });
            // `one` overwrites what `two` has read.
            one.run(|s| s.fill(&mut s.view(&mut held).unwrap(), 99).unwrap());
            assert_eq!(elements(&copy), [round; LEN]);
            two.run(|s| {
                s.view_ordered(&mut held, |mut view| s.fill(&mut view, round + 50).unwrap())
                    .unwrap();
            });
            assert_eq!(elements(&held), [round + 50; LEN]);
        }
        one.run(|s| s.fill(&mut s.view(&mut held).unwrap(), 3).unwrap());
        let held = two.run(|s| {
            let mut buffer = s.open_ordered(held).unwrap();
            let (left, right) = buffer.split_at_mut(LEN / 2);
            s.copy(right, left).unwrap();
            s.keep(buffer)
        });
        assert_eq!(elements(&held), [3; LEN]);
    });
}

/// To a stream of a tag and back, both ways: through a handoff, and opened by the static stream.
#[test]
fn static_streams_and_streams_of_run_time_exchange_bundles() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        let worker = stream(gpu, "worker");
        let handoff = compute.release(filled(&compute, 5)).unwrap();
        let held = worker
            .run_on(gpu, |s| s.keep(s.acquire(handoff).unwrap()))
            .unwrap();
        let handoff = worker.run_on(gpu, |s| s.release(s.open(held).unwrap()).unwrap());
        let buffer = download.acquire(handoff.unwrap()).unwrap();
        assert_eq!(read(gpu, &download, &buffer), [5; LEN]);
        // Without a handoff in between.
        let held = kept(&worker, 6);
        let buffer = compute.open_ordered(held).unwrap();
        let held = compute.keep(buffer);
        assert_eq!(held.stream(), &compute.to_any());
        assert_eq!(held.stream().name(), "Compute");
        let held = worker.run(|s| s.keep(s.open_ordered(held).unwrap()));
        assert_eq!(elements(&held), [6; LEN]);
        let refused = download.open(held).map(drop).unwrap_err().to_string();
        assert!(
            refused.contains("worker") && refused.contains("`Download`"),
            "{refused}"
        );
    });
}

/// What a static stream keeps it opens again with no call of the driver, also as a value.
#[test]
fn a_static_stream_as_a_value_is_the_same_stream() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let any = compute.to_any();
        let mut held = Some(kept(&any, 2));
        let made = calls_of(&gpu, || {
            let buffer = compute.open(held.take().unwrap()).unwrap();
            held = Some(any.run(|s| s.keep(s.open(compute.keep(buffer)).unwrap())));
        });
        assert_eq!(made, []);
        assert_eq!(held.unwrap().stream(), &compute.to_any());
        drop(any);
        assert_eq!(
            compute.to_any().name(),
            "Compute",
            "it is no stream to lend again"
        );
        let streams = || gpu.simulator().unwrap().counters().streams_live;
        let before = streams();
        assert_ne!(stream(&gpu, "other").at_text(), format!("{compute:?}"));
        assert_eq!(streams(), before + 1);
    })
    .unwrap();
}

trait AtText {
    fn at_text(&self) -> String;
}

impl AtText for AnyStream {
    fn at_text(&self) -> String {
        self.run(|s| format!("{s:?}"))
    }
}

/// 10,000 streams one after another, each with pending work and a pending free, are one CUDA
/// stream; three at a time are three.
#[test]
fn streams_without_a_holder_are_lent_again() {
    nothing_is_left(|gpu| {
        let streams = || gpu.simulator().unwrap().counters().streams_live;
        let before = streams();
        for index in 0..10_000_u32 {
            let worker = stream(&gpu, &format!("worker {index}"));
            if index % 100 == 0 {
                drop(kept(&worker, index));
            }
        }
        // One more is the stream for allocations.
        assert_eq!(streams(), before + 2);
        for _ in 0..10 {
            let three = [0, 1, 2].map(|name| stream(&gpu, &name.to_string()));
            assert!(three[0] != three[1] && three[1] != three[2] && three[0] != three[2]);
        }
        assert_eq!(streams(), before + 4);
        // Another priority is another stream.
        drop(gpu.create_stream("urgent", Priority::High).unwrap());
        assert_eq!(streams(), before + 5);
    });
}

/// A bundle holds its stream: no other holder gets the stream before the bundle is gone.
#[test]
fn a_kept_bundle_holds_its_stream() {
    for_each_device(|gpu| {
        let first = stream(gpu, "first");
        let held = kept(&first, 4);
        let text = first.at_text();
        drop(first);
        let second = stream(gpu, "second");
        assert_ne!(second.at_text(), text);
        assert_eq!(held.stream().name(), "first");
        assert_eq!(elements(&held), [4; LEN]);
        drop(held);
        let third = stream(gpu, "third");
        assert_eq!(third.at_text(), text, "the stream is lent again");
    });
}

/// The next holder's work comes behind the work and the frees of the holder before.
#[test]
fn h21_the_next_holder_of_a_stream_is_ordered_behind_the_holder_before() {
    for_each_device(|gpu| {
        let other = stream(gpu, "other");
        for round in 0..20 {
            let worker = stream(gpu, "worker");
            let held = kept(&worker, round);
            let handoff = worker.run_on(gpu, |s| s.release(s.open(held).unwrap()).unwrap());
            drop(worker);
            let next = stream(gpu, "next");
            let noise = kept(&next, 1000);
            drop(noise);
            let held = other.run_on(gpu, |s| s.keep(s.acquire(handoff.unwrap()).unwrap()));
            assert_eq!(elements(&held.unwrap()), [round; LEN]);
        }
    });
}

#[test]
fn streams_are_keys_of_a_map() {
    for_each_device(|gpu| {
        let streams = ["a", "b", "c"].map(|name| stream(gpu, name));
        #[expect(clippy::mutable_key_type, reason = "the hash is of the stream's identity")]
        let by_stream: HashMap<AnyStream, KeptBuffer> = streams
            .iter()
            .zip(10..)
            .map(|(stream, value)| (stream.clone(), kept(stream, value)))
            .collect();
        for (stream, value) in streams.iter().zip(10..) {
            assert_eq!(elements(&by_stream[stream]), [value; LEN]);
        }
    });
}

#[test]
fn a_claimed_tag_is_refused_to_the_second_claim_and_shared_by_stream() {
    for_each_device(|gpu| {
        let first = gpu.claim_stream::<Compute<_>>().unwrap();
        let error = gpu.claim_stream::<Compute<_>>().unwrap_err();
        assert!(matches!(error, Error::StreamInUse { tag: "Compute" }), "{error}");
        assert_eq!(first.raw(), gpu.stream::<Compute<_>>().unwrap().raw());
        // A stream that was asked for is in use too.
        let _asked = gpu.stream::<Download<_>>().unwrap();
        let error = gpu.claim_stream::<Download<_>>().unwrap_err();
        assert!(matches!(error, Error::StreamInUse { tag: "Download" }), "{error}");
    });
}
