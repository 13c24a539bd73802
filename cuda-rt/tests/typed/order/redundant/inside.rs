//! Inside a host function each call is refused, also where it would not reach the driver.

use std::sync::mpsc;

use cuda_rt::{Device, Error};

use super::{ErrorCode, First, Order, Second, SimConfig, edges, filled, simulated, streams};

fn is_refused<T>(answer: Result<T, impl Into<Error>>) {
    let error: Error = answer.err().expect("CUDA permits no call here").into();
    let code = error.driver().expect("a driver's error").code();
    assert_eq!(code, ErrorCode::NOT_PERMITTED, "{error}");
}

#[test]
fn h44_calls_that_are_left_out_are_refused_inside_a_host_function() {
    let gpu = Device::open_or_simulate_with(SimConfig::new().order(Order::Lazy)).unwrap();
    let (first, second) = (gpu.stream::<First>().unwrap(), gpu.stream::<Second>().unwrap());
    let owned = filled(&first, 0);
    let covered = filled(&first, 1);
    let covered = first.release(covered).unwrap();
    let covering = first.record_event().unwrap();
    second.wait_event(&covering).unwrap();
    let later = [2, 3, 4].map(|value| filled(&first, value));
    let [waited, asked, over] = later.map(|buffer| first.release(buffer).unwrap());
    let end = first.record_event().unwrap();
    end.synchronize().unwrap();
    let (ended, wait) = mpsc::channel();
    let other = gpu.stream::<super::Third>().unwrap();
    let mut given = Some((owned, covered, waited, asked, over, first.clone(), second.clone()));
    let enqueued = other.host_fn((), move |()| {
        let (owned, covered, waited, asked, over, first, second) = given.take().expect("called once");
        is_refused(asked.is_done());
        is_refused(asked.query());
        is_refused(waited.synchronize());
        is_refused(first.release(owned));
        is_refused(second.acquire(covered));
        is_refused(second.acquire(over));
        let _ = ended.send(());
    });
    enqueued.unwrap();
    other.synchronize().unwrap();
    // A closure that panics loses the device, and sends nothing.
    wait.recv().unwrap();
}

/// The same calls make no driver call elsewhere. Counted on a device of its own: other tests use
/// the first device at the same time.
#[test]
fn calls_that_are_left_out_reach_no_driver_outside_of_a_host_function() {
    simulated(|gpu| {
        let (first, second, _) = streams(&gpu);
        let over = first.release(filled(&first, 3)).unwrap();
        let end = first.record_event().unwrap();
        end.synchronize().unwrap();
        let (made, done) = edges(&gpu, || {
            let done = over.is_done().unwrap() && first.record_event().is_ok();
            (done, second.acquire(over).unwrap())
        });
        assert_eq!((made, done.0), ([0, 0, 0], true));
    });
}
