//! Host functions: their order, what waits for them, and graphs of them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuda_rt::driver::{Driver, HostFunction, RawStream};

use crate::support::{Host, Rig, SLOW};

/// What a function does; the case keeps it until all its calls are over.
type Body = Box<dyn Fn() + Send + Sync>;

unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: `enqueue` passes the address of a body that its case keeps until the stream is idle.
    let body = unsafe { &*data.cast_const().cast::<Body>() };
    body();
}

/// The functions of a case. Made before the rig, whose end waits for them.
#[derive(Default)]
struct Functions(Mutex<Vec<Arc<Body>>>);

impl Functions {
    #[track_caller]
    fn enqueue(&self, rig: &Rig, stream: RawStream, body: impl Fn() + Send + Sync + 'static) {
        let body = Arc::new(Box::new(body) as Body);
        let function = HostFunction {
            run,
            data: Arc::as_ptr(&body).expose_provenance(),
        };
        self.0.lock().expect("no panic under it").push(body);
        // SAFETY: the stream is live. The function does not unwind and calls no driver. `self`
        // keeps it, and each case waits for its streams.
        unsafe { rig.driver.launch_host_function(stream, function, &[]) }.expect("launch a host function");
    }
}

/// Multiplies each word by `factor`.
fn multiply(host: Host, factor: u32) -> impl Fn() + Send + Sync + 'static {
    let host = Shared(host);
    move || {
        let host = host.get();
        let words: Vec<u32> = host.words().into_iter().map(|word| word * factor).collect();
        host.write(&words.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<_>>());
    }
}

/// Memory that a function uses on another thread, in the order of a stream.
#[derive(Clone, Copy)]
struct Shared(Host);
// SAFETY: the address is of memory that the rig keeps mapped.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> Host {
        self.0
    }
}

pub(crate) fn a_function_runs_between_the_work_around_it(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let stream = rig.stream();
    let (block, host) = (rig.zeroed(400, stream), rig.host(400));
    rig.step(block, SLOW, 1, 3, stream); // 3
    rig.download(host, block, stream);
    functions.enqueue(&rig, stream, multiply(host, 5)); // 15
    rig.upload(block, host, stream);
    rig.step(block, SLOW, 2, 1, stream); // 31
    rig.download(host, block, stream);
    functions.enqueue(&rig, stream, multiply(host, 10)); // 310
    rig.upload(block, host, stream);
    assert_eq!(rig.read_words(block, stream), [310; 100]);
}

pub(crate) fn waits_of_the_host_cover_a_function(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let (stream, event) = (rig.stream(), rig.event());
    let block = rig.zeroed(400, stream);
    let runs = Arc::new(AtomicU32::new(0));
    let slowly = || {
        let runs = Arc::clone(&runs);
        move || {
            std::thread::sleep(Duration::from_millis(3));
            runs.fetch_add(1, Ordering::Relaxed);
        }
    };
    let run = || runs.load(Ordering::Relaxed);
    rig.step(block, SLOW, 1, 1, stream);
    functions.enqueue(&rig, stream, slowly());
    rig.synchronize(stream);
    assert_eq!(run(), 1);
    functions.enqueue(&rig, stream, slowly());
    rig.record(event, stream);
    rig.synchronize_event(event);
    assert_eq!(run(), 2);
    functions.enqueue(&rig, stream, slowly());
    rig.record(event, stream);
    rig.poll(event);
    assert_eq!(run(), 3);
    functions.enqueue(&rig, stream, slowly());
    rig.poll_stream(stream);
    assert_eq!(run(), 4);
}

pub(crate) fn a_wait_of_another_stream_covers_a_function(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let (first, second, event) = (rig.stream(), rig.stream(), rig.event());
    let (block, host) = (
        rig.zeroed(400, first),
        rig.host_with(&7_u32.to_ne_bytes().repeat(100)),
    );
    rig.step(block, SLOW, 1, 1, first);
    functions.enqueue(&rig, first, || std::thread::sleep(Duration::from_millis(3)));
    functions.enqueue(&rig, first, multiply(host, 3));
    rig.record(event, first);
    rig.wait(second, event);
    rig.upload(block, host, second);
    assert_eq!(rig.read_words(block, second), [21; 100]);
}

pub(crate) fn a_graph_calls_its_functions_at_each_launch(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let (captured, side, stream) = (rig.stream(), rig.stream(), rig.stream());
    let (fork, join) = (rig.event(), rig.event());
    let (block, host) = (rig.zeroed(400, stream), rig.host(400));
    rig.synchronize(stream);
    let side_runs = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&side_runs);

    rig.begin_capture(captured);
    rig.step(block, 0, 1, 1, captured);
    rig.record(fork, captured);
    rig.wait(side, fork);
    functions.enqueue(&rig, side, move || {
        counts.fetch_add(1, Ordering::Relaxed);
    });
    rig.download(host, block, captured);
    functions.enqueue(&rig, captured, multiply(host, 2));
    rig.upload(block, host, captured);
    rig.record(join, side);
    rig.wait(captured, join);
    let graph = rig.end_capture(captured).expect("a graph");
    assert_eq!(side_runs.load(Ordering::Relaxed), 0, "captured, not run");

    for _ in 0..5 {
        rig.launch_graph(graph, stream);
    }
    rig.step(block, 0, 1, 100, stream);
    rig.destroy_graph(graph);
    // x := 2 * (x + 1), five times from 0.
    assert_eq!(rig.read_words(block, stream), [62 + 100; 100]);
    assert_eq!(side_runs.load(Ordering::Relaxed), 5);
}

pub(crate) fn an_update_replaces_a_function_for_later_launches(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let (captured, stream) = (rig.stream(), rig.stream());
    let host = rig.host_with(&1_u32.to_ne_bytes().repeat(100));
    rig.begin_capture(captured);
    functions.enqueue(&rig, captured, multiply(host, 2));
    let graph = rig.end_capture(captured).expect("a graph");
    rig.launch_graph(graph, stream);
    rig.begin_capture(captured);
    functions.enqueue(&rig, captured, multiply(host, 5));
    rig.update_graph(graph, captured)
        .expect("the same nodes and edges");
    rig.launch_graph(graph, stream);
    rig.launch_graph(graph, stream);
    rig.synchronize(stream);
    assert_eq!(host.words(), [50; 100]);
    rig.destroy_graph(graph);
}

/// Functions that are enqueued by several threads, on streams of their own.
pub(crate) fn functions_of_several_streams_all_run(driver: &Arc<dyn Driver>) {
    let (functions, rig) = (Functions::default(), Rig::new(driver));
    let runs = Arc::new(AtomicU32::new(0));
    let streams: Vec<_> = (0..4).map(|_| rig.stream()).collect();
    for _ in 0..25 {
        for &stream in &streams {
            let runs = Arc::clone(&runs);
            functions.enqueue(&rig, stream, move || {
                runs.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
    streams.iter().for_each(|stream| rig.synchronize(*stream));
    assert_eq!(runs.load(Ordering::Relaxed), 100);
}
