//! Attacks on host functions: calls inside them, panics, leaks, lost devices.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Error, Grid1, Idle, Live, PinnedBuffer, Result, Stream};
use device_kernels::scale;

use super::{Compute, Download, LEN, PATIENCE, SaysWhere, Upload, in_each_order, patient};

/// The error of a call from inside a host function.
#[track_caller]
fn refused<T>(called: Result<T>) {
    let Err(error) = called else {
        panic!("a call from inside a host function was made")
    };
    let driver = error.driver().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(driver.code(), ErrorCode::NOT_PERMITTED, "{error}");
    assert!(error.to_string().contains("host function"), "{error}");
    assert!(!error.is_sticky());
}

/// Runs `body` in a host function of a device, and returns its result.
fn inside<T: Send + 'static>(
    compute: &Stream<Compute>,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    let ((sender, receiver), mut body) = (mpsc::channel(), Some(body));
    compute
        .host_fn((), move |()| {
            let body = body.take().expect("called once");
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let _ = sender.send(caught);
        })
        .unwrap();
    compute.synchronize().unwrap();
    receiver.recv_timeout(PATIENCE).expect("in time")
}

#[test]
fn h44_every_call_inside_a_function_is_refused() {
    let gpu = Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let mut data = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let mut out = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
    let waited = compute
        .release(compute.alloc_zeroed::<f32>(LEN).unwrap())
        .unwrap();
    let mut graph = compute
        .capture(compute.alloc_zeroed::<f32>(LEN).unwrap(), |stream, mut data| {
            stream.fill(&mut data, 1.0)
        })
        .unwrap();
    let spare = compute.alloc_zeroed::<f32>(LEN).unwrap();
    let (other_gpu, stream) = (gpu.clone(), compute.clone());
    let body = move || {
        refused(stream.synchronize());
        refused(stream.alloc_zeroed::<f32>(LEN));
        refused(stream.fill(&mut data, 1.0));
        refused(stream.copy_to_device(&host, &mut data));
        refused(stream.host_fn((), |()| ()));
        refused(scale(&stream, Grid1::covering(LEN), &data, &mut out, 2.0));
        refused(graph.launch(&stream));
        refused(stream.capture(spare, |_, _| Ok(())).map(drop));
        refused(stream.record_event().map(drop));
        refused(other_gpu.memory_info());
        refused(other_gpu.stream::<NeverUsed>().map(drop));
        refused(waited.synchronize().map(drop));
        refused(stream.release(data).map(drop));
        // And more of them are dropped here: `out`, `host`, `graph`.
    };
    inside(&compute, body).unwrap();
    // The device works on.
    let next = compute
        .init_filled(compute.alloc_uninit::<f32>(LEN).unwrap(), 3.0)
        .unwrap();
    let mut host = compute.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
    compute.copy_to_host(&next, &mut host).unwrap();
    assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [3.0; LEN]);
}

cuda_rt::streams! { NeverUsed; }

/// What is dropped inside a function leaks, because its end cannot be ordered. What the closure
/// keeps is freed on the thread for closures.
#[test]
fn h44_a_buffer_that_is_dropped_inside_a_function_leaks_and_no_call_is_made() {
    struct Sent<T>(Arc<Mutex<Option<T>>>);
    let gpu = Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let frees = || {
        gpu.simulator()
            .map_or(0, |simulator| simulator.counters().frees())
    };
    let before = frees();
    let buffer: DeviceBuffer<u32, Compute> = compute.alloc_zeroed(LEN).unwrap();
    let pinned: PinnedBuffer<u32, Compute> = compute.adopt(gpu.pinned(LEN).unwrap()).unwrap();
    let sent = Sent(Arc::new(Mutex::new(Some((buffer, pinned)))));
    inside(&compute, move || drop(sent.0.lock().unwrap().take())).unwrap();
    assert_eq!(frees(), before);
    compute.synchronize().unwrap();
}

fn panics<D: Live>(gpu: &Device<D>, values: PinnedBuffer<u32, Idle<D>>) -> (Error, u32) {
    let (compute, upload) = (
        gpu.stream::<Compute<D>>().unwrap(),
        gpu.stream::<Upload<D>>().unwrap(),
    );
    let mut host = compute.adopt(values).unwrap();
    let enqueued = line!() + 2;
    compute
        .host_fn(&mut host, |values| {
            values[0] = 1;
            panic!("half-way, on purpose: {}", values[1]);
        })
        .unwrap();
    let handoff = match compute.release(host) {
        Ok(handoff) => handoff,
        // In an eager order the function has run.
        Err(error) => return (error, enqueued),
    };
    // A wait of another stream's work fails as well, once the function has run.
    let error = handoff.synchronize().unwrap_err();
    assert!(upload.synchronize().unwrap_err().is_sticky());
    assert!(gpu.memory_info().unwrap_err().is_sticky());
    (error, enqueued)
}

#[test]
fn a_function_that_panics_loses_the_device_and_nobody_sees_what_it_wrote() {
    in_each_order(|gpu| {
        let (error, line) = panics(gpu, gpu.pinned_from(&[0, 7, 0]).unwrap());
        assert!(error.is_sticky(), "{error}");
        let text = error.to_string();
        let place = format!("{}:{line}:", file!());
        assert!(
            text.contains(&place) && text.contains("half-way, on purpose: 7"),
            "{text}"
        );
    });
}

/// The graph, and with it the capture's own driver, is gone when its function panics.
#[test]
fn a_function_that_panics_after_its_graph_was_dropped_loses_the_device_too() {
    in_each_order(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let ((sender, may_go_on), host) = (mpsc::channel(), gpu.pinned::<u32>(LEN).unwrap());
        let mut graph = compute
            .capture(compute.adopt(host).unwrap(), |stream, mut host| {
                stream.host_fn(&mut host, move |values| {
                    values[0] = 1;
                    // The graph's handle is gone by then, also in an eager order.
                    let _ = may_go_on.recv_timeout(PATIENCE);
                    panic!("after the end of its graph");
                })
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        drop(graph);
        sender.send(()).unwrap();
        let error = compute.synchronize().unwrap_err();
        assert!(
            error.to_string().contains("after the end of its graph"),
            "{error}"
        );
    });
}

/// The drop of the payload is the user's code. It must not run inside the function.
#[test]
fn a_payload_whose_drop_panics_has_no_other_effect() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop of a payload");
        }
    }
    in_each_order(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        compute.host_fn((), |()| std::panic::panic_any(Bomb)).unwrap();
        let error = compute.synchronize().unwrap_err();
        assert!(error.to_string().contains("a panic without a message"), "{error}");
    });
}

/// A capture whose drop panics, on the thread for closures, stops no other closure.
#[test]
fn a_capture_whose_drop_panics_stops_no_other_closure() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop of a capture");
        }
    }
    let gpu = Device::open_or_simulate_with(SimConfig::default().order(Order::Lazy)).unwrap();
    let compute = gpu.stream::<Compute>().unwrap();
    let ((sender, ended), bomb) = (mpsc::channel(), Bomb);
    compute
        .host_fn((), move |()| assert_eq!(size_of_val(&bomb), 0))
        .unwrap();
    let says = SaysWhere(sender);
    compute
        .host_fn((), move |()| assert!(size_of_val(&says) > 0))
        .unwrap();
    compute.synchronize().unwrap();
    patient(&ended);
}

/// On a lost device no function runs, and its closure is leaked with what it holds.
#[test]
fn h22_a_function_of_a_lost_device_never_runs() {
    for seed in 0..8 {
        let (sender, ended) = mpsc::channel();
        let config = SimConfig::default()
            .seed(seed)
            .order(cuda_rt::simulator::Order::Lazy);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            let says = SaysWhere(sender);
            compute
                .host_fn(&mut host, move |_| {
                    panic!("on a lost device: {}", size_of_val(&says))
                })
                .unwrap();
            gpu.simulator()
                .unwrap()
                .fail_next(Call::CreateEvent, ErrorCode::LAUNCH_FAILED);
            assert!(compute.release(host).unwrap_err().is_sticky());
        })
        .unwrap();
        assert!(ended.try_recv().is_err());
    }
}

/// Leaked owners of the memory: the function still has it.
#[test]
fn h22_memory_that_is_leaked_stays_until_the_function_has_run() {
    in_each_order(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let (sender, receiver) = mpsc::channel();
        let mut host = compute.adopt(gpu.pinned_from(&[5_u32; LEN]).unwrap()).unwrap();
        compute
            .host_fn(&mut host, move |values| {
                let _ = sender.send(values.iter().sum::<u32>());
            })
            .unwrap();
        std::mem::forget(compute.release(host).unwrap());
        download.synchronize().unwrap();
        compute.synchronize().unwrap();
        assert_eq!(patient(&receiver), 5 * LEN as u32);
    });
}
