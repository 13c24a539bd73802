//! Foreign calls, ordered by their stated uses.

use cuda_rt::driver::{Driver, ErrorCode};
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Captured, Device, DeviceViewMut, Live, Stream};

use super::{BYTES, Compute, Download, LEN, read};
use crate::devices::for_each_device;

type View<'g, D> = DeviceViewMut<'g, u32, Captured<'g, Compute<D>>>;

#[test]
fn a_foreign_call_is_ordered_between_two_handoffs() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut source = download.alloc_zeroed::<u32>(LEN).unwrap();
        download.fill(&mut source, 7).unwrap();
        let source = compute.acquire(download.release(source).unwrap()).unwrap();
        let mut result = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let (from, to, driver) = (source.address(), result.address(), gpu.driver());
        // SAFETY: the memory is live, in bounds, and borrowed below for the stream of the call.
        let copy = |stream| unsafe { driver.copy(to, from, BYTES / 2, stream) };
        let call = compute.foreign("copy half").reads(&source).writes(&mut result);
        // SAFETY: the closure makes one copy on the stream of the call, within both buffers; any
        // bytes are a `u32`.
        let copied = unsafe { call.enqueue(copy) };
        copied.unwrap().unwrap();
        let (left, right) = result.split_at_mut(LEN / 2);
        compute.copy(left, right).unwrap();
        assert_eq!(read(gpu, result), [7; LEN]);
    });
}

/// A dry run cannot make a foreign call, so each update needs a capture.
#[test]
fn a_graph_with_a_foreign_call_is_updated_by_capture() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let driver = gpu.driver();
        let calls = std::cell::Cell::new(0);
        let filled = |value| {
            let buffer = compute.alloc_uninit::<u32>(LEN).unwrap();
            compute.init_filled(buffer, value).unwrap()
        };
        fn body<'g, D: Live>(
            stream: &'g Stream<Captured<'g, Compute<D>>>,
            (a, mut b): (View<'g, D>, View<'g, D>),
            driver: &dyn Driver,
            calls: &std::cell::Cell<usize>,
        ) -> cuda_rt::Result<()> {
            let (from, to) = (a.address(), b.address());
            let call = stream.foreign("copy").reads(&a).writes(&mut b);
            let library = |stream| {
                calls.set(calls.get() + 1);
                // SAFETY: the memory is live, in bounds, and borrowed for the stream of the call.
                unsafe { driver.copy(to, from, BYTES, stream) }
            };
            // SAFETY: the closure makes one copy on the stream of the call, within both buffers;
            // any bytes are a `u32`.
            unsafe { call.enqueue(library) }?.unwrap();
            Ok(())
        }
        let mut graph = compute
            .capture((filled(1), filled(0)), |stream, pair| {
                body(stream, pair, driver, &calls)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let (_, old) = graph
            .replace((filled(2), filled(0)), |stream, pair| {
                body(stream, pair, driver, &calls)
            })
            .unwrap();
        assert_eq!(calls.get(), 2, "once in each capture, and in no rehearsal");
        graph.launch(&compute).unwrap();
        let (_, new) = graph.into_inner();
        assert_eq!((read(gpu, old), read(gpu, new)), (vec![1; LEN], vec![2; LEN]));
    });
}

#[test]
fn foreign_calls_are_refused_once_an_ordering_could_not_be_made() {
    Device::simulated(SimConfig::default(), |gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let simulator = gpu.simulator().unwrap();
        simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
        simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
        compute
            .lend(&download, &mut buffer, |view| download.fill(view, 1))
            .unwrap_err();
        let call = compute.foreign("nothing").writes(&mut buffer);
        // SAFETY: the closure enqueues nothing.
        let refused = unsafe { call.enqueue(|_| panic!("it ran")) };
        let error = refused.unwrap_err();
        assert!(error.to_string().starts_with("nothing: "), "{error}");
    })
    .unwrap();
}
