//! Subscribers of `tracing` are user code: they are told what the documentation says, and may
//! panic, or call the library, at each place where they are called.
//!
//! One subscriber serves the whole process. What it does depends on the thread that it is called
//! on; on the threads of other tests it does nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::panic::resume_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DriverWithTools, ErrorCode};
use cuda_rt::simulator::{Call, Order, SimConfig, SimDriver};
use cuda_rt::{AnyDevice, Communicator, Device, Grid1, Live, Priority, Reduction};
use device_std::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

use crate::attacks::{Two, stream_one};
use crate::driver::{Plan, Unwinding, When, until_unwound};
use crate::programs::{LEN, Streams, program};

/// Runs [`MEANWHILE`] inside the simulated device.
#[kernel]
fn calling(i: Index1, output: PerThread<u32>) {
    output.set(i, 1);
    meanwhile();
}

/// The functions of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Enabled,
    Event,
    NewSpan,
    Enter,
    Exit,
    Close,
}

const PLACES: [Place; 6] = [
    Place::Enabled,
    Place::Event,
    Place::NewSpan,
    Place::Enter,
    Place::Exit,
    Place::Close,
];

/// What the subscriber does on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nothing,
    Collect,
    /// Collects, and panics in this function.
    Panic(Place),
    /// Collects, and calls the library.
    Reenter,
}

/// An event, or a function that was called of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    target: &'static str,
    level: tracing::Level,
    message: String,
    fields: BTreeMap<&'static str, String>,
}

type Job = Box<dyn Fn()>;

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Nothing) };
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
    static PANICS: Cell<u64> = const { Cell::new(0) };
    static SPANS: Cell<[i64; 2]> = const { Cell::new([0; 2]) };
    static REFUSED: Cell<u32> = const { Cell::new(0) };
    static MEANWHILE: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// Runs the thread's job, if it has one, once at a time.
fn meanwhile() {
    if let Some(job) = MEANWHILE.take() {
        job();
        MEANWHILE.set(Some(job));
    }
}

/// The payload of the subscriber's panics: user code too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload of a subscriber's panic was dropped");
    }
}

struct Switch;

static IDS: AtomicU64 = AtomicU64::new(1);

impl Switch {
    fn called(&self, place: Place) {
        match MODE.get() {
            Mode::Panic(wanted) if wanted == place => {
                PANICS.set(PANICS.get() + 1);
                resume_unwind(Box::new(Bomb));
            }
            Mode::Reenter => meanwhile(),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").unwrap();
        self.0.insert(field.name(), text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Switch {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = MODE.get() != Mode::Nothing && metadata.target().starts_with("cuda_rt::");
        if wanted {
            self.called(Place::Enabled);
        }
        wanted
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        note(span.metadata(), span.metadata().name().to_owned(), fields);
        self.called(Place::NewSpan);
        Id::from_u64(IDS.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").expect("each event has a message");
        note(event.metadata(), message, fields);
        self.called(Place::Event);
    }

    fn enter(&self, _: &Id) {
        let [open, live] = SPANS.get();
        SPANS.set([open + 1, live + 1]);
        self.called(Place::Enter);
    }

    fn exit(&self, _: &Id) {
        let [open, live] = SPANS.get();
        SPANS.set([open - 1, live]);
        self.called(Place::Exit);
    }

    fn try_close(&self, _: Id) -> bool {
        let [open, live] = SPANS.get();
        SPANS.set([open, live - 1]);
        self.called(Place::Close);
        true
    }
}

fn note(metadata: &'static Metadata<'static>, message: String, fields: Fields) {
    let told = Told {
        target: metadata.target(),
        level: *metadata.level(),
        message,
        fields: fields.0,
    };
    TOLD.with_borrow_mut(|all| all.push(told));
}

/// Runs `body` with a subscriber in this mode, and returns what it was told.
fn listening(mode: Mode, body: impl FnOnce()) -> Vec<Told> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Switch).expect("the first one"));
    MODE.set(mode);
    TOLD.take();
    SPANS.set([0; 2]);
    body();
    MODE.set(Mode::Nothing);
    TOLD.take()
}

fn with<'a>(told: &'a [Told], message: &str) -> Vec<&'a Told> {
    told.iter().filter(|told| told.message == message).collect()
}

#[test]
fn each_event_has_the_target_level_and_fields_of_the_table() {
    let told = listening(Mode::Collect, || {
        Device::simulated(SimConfig::new(), |gpu| {
            gpu.set_slow_wait(Some(Duration::ZERO));
            let streams = Streams::new(&gpu).unwrap();
            streams
                .check(&gpu, streams.uploaded(&gpu, 7).unwrap(), 7)
                .unwrap();
            streams.compute.synchronize().unwrap();
            assert!(gpu.trim_pinned(0) > 0);
            gpu.trim(0).unwrap();
            let simulator = gpu.simulator().unwrap();
            simulator.fail_next(Call::Fill, ErrorCode::OUT_OF_MEMORY);
            let mut buffer = streams.compute.alloc_zeroed::<u32>(LEN).unwrap_err();
            assert!(buffer.is_out_of_memory());
            simulator.fail_next(Call::SynchronizeStream, ErrorCode::LAUNCH_FAILED);
            buffer = streams.compute.synchronize().unwrap_err();
            assert!(buffer.is_sticky());
        })
        .unwrap();
    });
    let lines: Vec<String> = told
        .iter()
        .map(|told| {
            let names: Vec<_> = told.fields.keys().copied().collect();
            format!(
                "{} {} {}: {}",
                told.target,
                told.level,
                told.message,
                names.join(" ")
            )
        })
        .collect();
    for line in [
        "cuda_rt::device INFO device opened: driver_version name ordinal simulated",
        "cuda_rt::stream DEBUG stream created: ordinal priority stream",
        "cuda_rt::memory DEBUG pool grown: bytes_after bytes_before ordinal pool",
        "cuda_rt::memory DEBUG pool trimmed: bytes ordinal pool",
        "cuda_rt::wait DEBUG host_wait: stream",
        "cuda_rt::wait WARN slow host wait: elapsed_us stream threshold_us",
        "cuda_rt::error WARN call failed: call code code_name detail during",
        "cuda_rt::error ERROR device lost: call code code_name detail during",
    ] {
        assert!(lines.iter().any(|told| told == line), "{line}: {lines:#?}");
    }
    assert_eq!(with(&told, "device opened").len(), 1);
    assert_eq!(with(&told, "device opened")[0].fields["simulated"], "true");
    assert_eq!(with(&told, "stream created").len(), 3);
    let failed = with(&told, "call failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].fields["during"], "Stream::alloc_zeroed");
    assert_eq!(failed[0].fields["call"], "cuMemsetD8Async");
    assert_eq!(failed[0].fields["code_name"], "CUDA_ERROR_OUT_OF_MEMORY");
    assert_eq!(
        with(&told, "device lost")[0].fields["during"],
        "Stream::synchronize"
    );
    for grown in with(&told, "pool grown").iter().map(|told| &told.fields) {
        let bytes = |field| grown[field].parse::<u64>().unwrap();
        assert!(bytes("bytes_after") > bytes("bytes_before"), "{grown:?}");
    }
    let pools: Vec<_> = with(&told, "pool trimmed")
        .iter()
        .map(|told| told.fields["pool"].clone())
        .collect();
    assert_eq!(pools, ["pinned", "device"]);
    assert_eq!(SPANS.get(), [0; 2], "each span was exited and closed");
    let documented = include_str!("../../../runtime/src/observability/mod.rs");
    let book = include_str!("../../../docs/book/src/how-to.md");
    for told in &told {
        let target = told.target.strip_prefix("cuda_rt::").unwrap();
        let row = format!("| `{target}` | {} |", told.level);
        let row = documented
            .lines()
            .find(|line| line.contains(&row) && line.contains(&told.message));
        let row = row.unwrap_or_else(|| panic!("the table has no row of {told:?}"));
        assert!(
            book.contains(&format!("`{}`", told.message)),
            "the book: {told:?}"
        );
        // Errors have one list of fields, in the first of their rows.
        if told.target != "cuda_rt::error" || told.message == "call failed" {
            told.fields
                .keys()
                .for_each(|field| assert!(row.contains(&format!("`{field}`")), "{field}: {row}"));
        }
    }
}

#[test]
fn a_wait_is_slow_from_the_threshold_on() {
    let slow = |threshold| {
        let told = listening(Mode::Collect, || {
            Device::simulated(SimConfig::new(), |gpu| {
                gpu.set_slow_wait(threshold);
                Streams::new(&gpu).unwrap().compute.synchronize().unwrap();
            })
            .unwrap();
        });
        assert_eq!(with(&told, "host_wait").len(), 1);
        with(&told, "slow host wait").len()
    };
    assert_eq!(slow(Some(Duration::ZERO)), 1);
    assert_eq!(slow(Some(Duration::from_secs(3600))), 0);
    assert_eq!(slow(None), 0);
}

#[test]
fn a_device_that_takes_no_more_work_says_so_once() {
    let told = listening(Mode::Collect, || {
        Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
            let streams = Streams::new(&gpu).unwrap();
            let (owner, borrower) = (&streams.compute, &streams.upload);
            let mut buffer = owner.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = gpu.simulator().unwrap();
            let lent = owner.lend(borrower, &mut buffer, |view| {
                simulator.fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
                simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
                borrower.fill(view, 1)
            });
            assert!(lent.is_err());
            for _ in 0..3 {
                assert!(owner.fill(&mut buffer, 1).unwrap_err().is_sticky());
            }
        })
        .unwrap();
    });
    assert_eq!(with(&told, "device takes no more work").len(), 1, "{told:?}");
}

/// Runs the program twice on one device. The `nth` call of this kind fails.
fn fails_once(config: SimConfig, call: Call, nth: u64, context: &str) {
    let simulator = Device::simulated(config, |gpu| {
        gpu.set_slow_wait(Some(Duration::ZERO));
        let streams = Streams::new(&gpu).unwrap();
        // In flight during the run, and read at the end.
        let witness = streams
            .downloading(&gpu, streams.uploaded(&gpu, 77).unwrap())
            .unwrap();
        let simulator = gpu.simulator().unwrap().clone();
        simulator.fail_nth(call, nth, ErrorCode::OUT_OF_MEMORY);
        for _ in 0..2 {
            if let Err(error) = program(&gpu) {
                assert!(error.to_string().contains("injected"), "{context}: {error}");
            }
        }
        if let Ok(host) = witness.synchronize() {
            assert_eq!(*host, [77; LEN], "{context}");
        }
        simulator
    })
    .unwrap();
    let races = simulator.races();
    assert!(races.is_empty(), "{context}: {}", races[0]);
}

#[test]
fn a_subscriber_that_panics_ends_no_call_and_loses_no_ordering() {
    let mut panics = BTreeMap::new();
    for (turn, &call) in Call::ALL.iter().enumerate() {
        for nth in [1, 3] {
            // Each kind of call fails under a subscriber that panics in three places.
            for place in PLACES.iter().skip((turn + nth as usize) % 2).step_by(2) {
                let context = format!("{call:?} number {nth}, {place:?}");
                let config = SimConfig::new().seed(turn as u64).check(Check::Record);
                listening(Mode::Panic(*place), || fails_once(config, call, nth, &context));
                *panics.entry(format!("{place:?}")).or_insert(0) += PANICS.replace(0);
            }
        }
    }
    assert_eq!(panics.len(), PLACES.len());
    assert!(panics.values().all(|panics| *panics > 500), "{panics:?}");
}

#[test]
fn the_span_of_a_wait_that_unwinds_is_exited_under_a_subscriber_that_panics() {
    for mode in [Mode::Collect].into_iter().chain(PLACES.map(Mode::Panic)) {
        listening(mode, || {
            let plan = Plan::default();
            let driver: std::sync::Arc<dyn DriverWithTools> = SimDriver::new(SimConfig::new());
            Device::with_driver(Unwinding::over(driver, &plan), |gpu| {
                let compute = Streams::new(&gpu).unwrap().compute;
                plan.arm(Some("synchronize_stream"), 1, When::Before);
                assert!(until_unwound(|| compute.synchronize()).is_none());
            })
            .unwrap();
            assert_eq!(SPANS.get(), [0; 2], "{mode:?}");
        });
        PANICS.set(0);
    }
}

/// Runs `body` on a thread of its own. It must come to its end.
fn ends(body: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        body();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a subscriber waits for its own thread"),
        _ => thread.join().unwrap(),
    }
}

/// What a subscriber calls: each lock of the library that an event could be told under.
fn each_lock<D: Live>(gpu: &Device<D>) {
    let streams = Streams::new(gpu).unwrap();
    if let Ok(buffer) = streams.uploaded(gpu, 5) {
        let _ = streams.check(gpu, buffer, 5);
    }
    drop(gpu.stream_pool(1));
    let any = AnyDevice::from(gpu);
    drop(any.create_stream("told", Priority::Normal));
    gpu.trim_pinned(0);
    let _ = gpu.trim(0);
    let _ = gpu.synchronize();
}

#[test]
fn a_subscriber_may_call_the_library_at_each_event() {
    ends(|| {
        let calls = std::rc::Rc::new(Cell::new(0));
        let counted = std::rc::Rc::clone(&calls);
        let config = || SimConfig::new().check(Check::Record);
        Device::simulated(config(), |gpu| {
            let any = AnyDevice::from(&gpu);
            MEANWHILE.set(Some(Box::new(move || {
                counted.set(counted.get() + 1);
                any.with(|gpu| {
                    let _ = gpu.metrics();
                    each_lock(gpu);
                });
                AnyDevice::open_or_simulate(1).unwrap();
            })));
            listening(Mode::Reenter, || {
                AnyDevice::open_or_simulate(2).unwrap();
                // The subscriber asks for other tags, so each of these streams is new, and told.
                drop((stream_one(&gpu), gpu.claim_stream::<Two<_>>().unwrap()));
                gpu.set_slow_wait(Some(Duration::ZERO));
                for call in [Call::Fill, Call::RecordEvent, Call::WaitEvent, Call::Launch] {
                    gpu.simulator()
                        .unwrap()
                        .fail_nth(call, 2, ErrorCode::OUT_OF_MEMORY);
                    let _ = program(&gpu);
                }
                program(&gpu).unwrap();
            });
            MEANWHILE.take();
            assert!(gpu.races().is_empty(), "{}", gpu.races()[0]);
        })
        .unwrap();
        assert!(calls.get() > 100, "{}", calls.get());
    });
}

/// A collective holds a lock of its communicator until it has returned.
#[test]
fn a_subscriber_may_end_the_communicator_whose_collective_failed() {
    ends(|| {
        let first = Device::open_or_simulate_gpu::<4>().unwrap();
        let second = Device::open_or_simulate_gpu::<5>().unwrap();
        let ranks = std::rc::Rc::new(Communicator::new((&first, &second)).unwrap());
        let (a, b) = (Streams::new(&first).unwrap(), Streams::new(&second).unwrap());
        let buffers = (
            a.compute.rank(a.compute.alloc_zeroed::<u32>(LEN).unwrap()),
            b.compute.rank(b.compute.alloc_zeroed::<u32>(LEN).unwrap()),
        );
        let Some(simulator) = first.simulator() else {
            return;
        };
        simulator.fail_next(Call::Collective, ErrorCode::nccl(2));
        let aborted = std::rc::Rc::clone(&ranks);
        MEANWHILE.set(Some(Box::new(move || aborted.abort())));
        let told = listening(Mode::Reenter, || {
            assert!(ranks.all_reduce(Reduction::Sum, buffers).is_err());
        });
        MEANWHILE.take();
        assert_eq!(with(&told, "call failed").len(), 1, "{told:?}");
    });
}

#[test]
fn what_a_subscriber_does_is_not_told() {
    let told = listening(Mode::Reenter, || {
        let job = || drop(Device::simulated(SimConfig::new(), |gpu| drop(gpu.metrics())));
        MEANWHILE.set(Some(Box::new(job)));
        Device::simulated(SimConfig::new(), |_| ()).unwrap();
        MEANWHILE.take();
    });
    assert_eq!(with(&told, "device opened").len(), 1, "{told:?}");
}

/// A kernel's body runs inside the simulated device, and a host function on a thread of CUDA's.
#[test]
fn no_subscriber_runs_inside_the_simulated_device_or_a_host_function() {
    let gpu = Device::open_or_simulate_gpu::<6>().unwrap();
    if !gpu.is_simulated() {
        return;
    }
    let compute = Streams::new(&gpu).unwrap().compute;
    let mut output = compute.alloc_zeroed::<u32>(1).unwrap();
    let refused = || {
        let gpu = Device::open_or_simulate_gpu::<6>().unwrap();
        assert!(gpu.synchronize().is_err());
        assert!(gpu.metrics().is_err());
        REFUSED.set(REFUSED.get() + 1);
    };
    let mut told = listening(Mode::Collect, || {
        MEANWHILE.set(Some(Box::new(refused)));
        calling(&compute, Grid1::covering(1), &mut output).unwrap();
        while !compute.is_done().unwrap() {}
        MEANWHILE.take();
    });
    assert_eq!(REFUSED.get(), 1);
    let (sender, receiver) = mpsc::channel();
    let body = move |()| {
        let told = listening(Mode::Collect, refused);
        sender.send(told).unwrap();
    };
    compute.host_fn((), body).unwrap();
    while !compute.is_done().unwrap() {}
    told.extend(receiver.recv().unwrap());
    assert!(told.is_empty(), "{told:?}");
}
