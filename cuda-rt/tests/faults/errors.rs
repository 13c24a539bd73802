//! Calls that fail: once, for ever, and several of them together.

use cuda_rt::Layout2;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig, Simulator};
use cuda_rt::{Device, Error, Live, Result};

use crate::cases;
use crate::programs::{LEN, Streams, program};

/// A code that is not sticky and belongs to no call in particular.
const PASSING: ErrorCode = ErrorCode::OUT_OF_MEMORY;
const STICKY: ErrorCode = ErrorCode::LAUNCH_FAILED;

pub(crate) fn configurations() -> impl Iterator<Item = SimConfig> {
    let random = (0..6).map(|seed| SimConfig::default().seed(seed));
    let lazy = [SimConfig::default().seed(9).order(Order::Lazy)];
    lazy.into_iter().chain(random).take(cases::at_most(7) as usize)
}

/// The number of calls of each kind that the program makes on a device without faults, up to the
/// end of the device.
fn calls(config: &SimConfig) -> Counters {
    let (simulator, before) = Device::simulated(config.clone(), |gpu| {
        let simulator = gpu.simulator().unwrap().clone();
        let before = simulator.counters();
        program(&gpu).unwrap();
        (simulator, before)
    })
    .unwrap();
    let after = simulator.counters();
    assert_eq!(before.calls(Call::CreateStream), 1, "the stream for frees");
    assert_eq!(leaks(&after), [0; 6], "what a program that never fails leaves");
    after
}

/// The objects that remain after the end of a device.
fn leaks(counters: &Counters) -> [usize; 6] {
    [
        counters.streams_live,
        counters.events_live,
        counters.graphs_live,
        counters.allocations_live,
        counters.registrations_live,
        counters.managed_live,
    ]
}

/// The most that one failed call may leave: objects that the call itself was to end, or objects in
/// use by work whose end is then unknown.
fn allowed(call: Call) -> [usize; 6] {
    match call {
        Call::DestroyStream => [1, 0, 0, 0, 0, 0],
        Call::DestroyEvent => [0, 1, 0, 0, 0, 0],
        // Together with the memory that it allocates.
        Call::DestroyGraph => [0, 0, 1, 1, 0, 0],
        Call::Free | Call::WaitEvent => [0, 0, 0, 1, 0, 0],
        Call::UnregisterHost | Call::FreeWriteCombined => [0, 0, 0, 0, 1, 0],
        Call::FreeManaged => [0, 0, 0, 0, 0, 1],
        Call::SynchronizeEvent => [0, 0, 0, 0, 1, 1],
        // The record at the end of a lease (memory), or of the use of a pinned or managed block.
        Call::CreateEvent | Call::RecordEvent => [0, 0, 0, 1, 1, 1],
        _ => [0; 6],
    }
}

/// Runs the program with the `nth` call of a kind failing, and then again on the same device.
fn fails_once<D: Live>(gpu: &Device<D>, call: Call, nth: u64, code: ErrorCode) -> Simulator {
    let simulator = gpu.simulator().unwrap().clone();
    let context = format!(
        "{call:?} number {nth} fails with {code:?}, {:?}",
        simulator.config().seed
    );
    let streams = Streams::new(gpu).unwrap();
    // In flight during the run, and read at the end.
    let witness = streams
        .downloading(gpu, streams.uploaded(gpu, 77).unwrap())
        .unwrap();
    simulator.fail_nth(call, nth, code);
    let clear = |error: &Error| {
        let driver = error.driver().unwrap_or_else(|| panic!("{context}: {error}"));
        assert_eq!(driver.code(), code, "{context}: {error}");
        assert!(error.to_string().contains("injected"), "{context}: {error}");
        assert_eq!(error.is_sticky(), code == STICKY, "{context}");
    };
    let first = program(gpu);
    first.as_ref().err().inspect(|error| clear(error));
    if code == STICKY {
        if let Ok(host) = witness.synchronize() {
            assert_eq!(*host, [77; LEN], "{context}");
        }
        return simulator;
    }
    // The first run may end before the call is made. Then the call fails in the second run, or at
    // the device's end.
    let second = program(gpu);
    assert!(
        first.is_ok() || second.is_ok(),
        "{context}: {first:?}, then {second:?}"
    );
    second.as_ref().err().inspect(|error| clear(error));
    if let Ok(host) = witness.synchronize() {
        assert_eq!(*host, [77; LEN], "{context}");
    }
    simulator
}

#[test]
fn each_call_that_fails_once_gives_an_error_and_no_wrong_bytes_and_leaks_no_more_than_it_must() {
    let mut failed = 0;
    for config in configurations() {
        let counted = calls(&config);
        for &call in Call::ALL {
            for nth in 1..=counted.calls(call) {
                let simulator =
                    Device::simulated(config.clone(), |gpu| fails_once(&gpu, call, nth, PASSING)).unwrap();
                let counters = simulator.counters();
                let (left, most) = (leaks(&counters), allowed(call));
                assert!(
                    left.iter().zip(most).all(|(left, most)| *left <= most),
                    "{call:?} number {nth} of {config:?} left {left:?} (streams, events, graphs, allocations, registrations, managed memory)"
                );
                failed += 1;
            }
        }
    }
    assert!(
        failed > 75 * configurations().count(),
        "only {failed} calls were made to fail"
    );
}

#[test]
fn each_call_that_loses_the_device_gives_an_error_and_no_wrong_bytes() {
    for config in configurations() {
        let counted = calls(&config);
        for &call in Call::ALL {
            for nth in 1..=counted.calls(call) {
                Device::simulated(config.clone(), |gpu| fails_once(&gpu, call, nth, STICKY)).unwrap();
            }
        }
    }
}

/// Two failing calls can block each other's recovery: a lend that can be joined neither on the GPU
/// nor on the host.
#[test]
fn several_calls_that_fail_give_errors_and_no_wrong_bytes() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: u64| {
        // Knuth's MMIX generator; only its high bits are random enough.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    // The calls that order work, and calls next to them.
    let calls = [
        Call::RecordEvent,
        Call::WaitEvent,
        Call::SynchronizeStream,
        Call::SynchronizeEvent,
        Call::QueryEvent,
        Call::CreateEvent,
        Call::Free,
        Call::EndCapture,
    ];
    for seed in 0..cases::at_most(600) {
        let order = if seed % 3 == 0 { Order::Lazy } else { Order::Random };
        Device::simulated(SimConfig::default().seed(seed).order(order), |gpu| {
            let simulator = gpu.simulator().unwrap();
            let streams = Streams::new(&gpu).unwrap();
            let witness = streams
                .downloading(&gpu, streams.uploaded(&gpu, 77).unwrap())
                .unwrap();
            for _ in 0..3 {
                for _ in 0..4 {
                    let call = calls[below(calls.len() as u64) as usize];
                    simulator.fail_nth(call, 1 + below(12), PASSING);
                }
                if let Err(error) = program(&gpu) {
                    let driver = error.driver().map(|driver| driver.code());
                    assert_eq!(driver, Some(PASSING), "seed {seed}: {error}");
                }
            }
            if let Ok(host) = witness.synchronize() {
                assert_eq!(*host, [77; LEN], "seed {seed}");
            }
        })
        .unwrap();
    }
}

#[test]
fn a_call_that_fails_enqueues_nothing() {
    let config = SimConfig::default().order(Order::Lazy);
    Device::simulated(config, |gpu| {
        let simulator = gpu.simulator().unwrap().clone();
        let streams = Streams::new(&gpu).unwrap();
        let compute = &streams.compute;
        let (a, mut b) = (
            compute.alloc_zeroed::<u32>(LEN).unwrap(),
            compute.alloc_zeroed::<u32>(LEN).unwrap(),
        );
        let mut host = compute.adopt(gpu.pinned(LEN).unwrap()).unwrap();
        let mut graph = compute
            .capture(compute.alloc_zeroed::<u32>(LEN).unwrap(), |stream, mut view| {
                stream.fill(&mut view, 1)
            })
            .unwrap();
        let refused = |call, body: &mut dyn FnMut() -> Result<()>| {
            let before = simulator.counters();
            simulator.fail_next(call, PASSING);
            body().unwrap_err();
            let after = simulator.counters();
            assert_eq!(before.operations_pending, after.operations_pending, "{call:?}");
            assert_eq!(before.operations_run, after.operations_run, "{call:?}");
            assert_eq!(before.allocations_live, after.allocations_live, "{call:?}");
        };
        refused(Call::Fill, &mut || compute.fill(&mut b, 1));
        refused(Call::Copy, &mut || compute.copy(&a, &mut b));
        let rows = Layout2::packed(2, 2);
        refused(Call::CopyRows, &mut || compute.copy_rows(&a, rows, &mut b, rows));
        refused(Call::CopyRows, &mut || {
            compute.copy_rows_to_host(&a, rows, &mut host, rows)
        });
        refused(Call::CopyToHost, &mut || compute.copy_to_host(&a, &mut host));
        refused(Call::CopyToDevice, &mut || compute.copy_to_device(&host, &mut b));
        // Each allocation is a call from here on.
        gpu.set_memory_caching(false);
        refused(Call::Alloc, &mut || compute.alloc_uninit::<u32>(LEN).map(drop));
        refused(Call::LaunchGraph, &mut || graph.launch(compute));
        refused(Call::RecordEvent, &mut || compute.record_timed_event().map(drop));
    })
    .unwrap();
}
