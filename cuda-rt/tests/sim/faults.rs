use std::ffi::c_void;

use cuda_rt::driver::{
    Advice, Collective, DriverError, ErrorCode, Events, HostFunction, Kernels, Location, Managed, Memory,
    Number, Part, Peers, Reduction, Streams,
};
use cuda_rt::driver::{CopyExtent as Rows, Pitch};
use cuda_rt::kernel::LaunchShape;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig};

use crate::kernels;
use crate::rig::{Host, Rig};

/// A module, aligned as images are.
#[repr(align(8))]
struct Image([u8; 52]);

static IMAGE: Image = Image(*b".version 7.0\n.visible .entry f(.param .u64 p){ret;}\0");

/// Makes each call once. Returns the first error of `call`.
fn call_all(rig: &Rig, call: Call, code: ErrorCode) -> (DriverError, Counters, Counters) {
    let (s, other) = (rig.stream(), rig.stream());
    let (event, second) = (rig.event(), rig.event());
    let (host, spare) = (Host::new(64), Host::new(64));
    rig.register_host(host.memory()).unwrap();
    let managed = rig.driver.alloc_managed(64).unwrap();
    let combined = rig.driver.alloc_write_combined(64).unwrap();
    let (a, b) = (rig.alloc(64, s).unwrap(), rig.alloc(64, s).unwrap());
    rig.begin_capture(s).unwrap();
    rig.add(a, 1, 1, s).unwrap();
    let node = rig.captured_node(s).unwrap();
    let graph = rig.end_capture(s).unwrap();
    rig.record_event(second, s).unwrap();
    rig.record_event(event, s).unwrap();
    rig.fill(a, &[1], 64, s).unwrap();
    rig.record_event(event, s).unwrap();
    if ends_a_capture(call) {
        rig.begin_capture(s).unwrap();
        rig.alloc(64, s).unwrap();
    }
    let ranks = rig.driver.communicator(&[rig.driver.peer()]).unwrap();
    // SAFETY: the image is PTX that ends in a NUL.
    let module = unsafe { rig.driver.load_module(&IMAGE.0) }.unwrap();
    let before = rig.sim().counters();
    rig.sim().fail_next(call, code);
    let result = match call {
        Call::MemoryInfo => rig.driver.memory_info().map(drop),
        Call::CreateStream => rig.driver.create_stream(0).map(drop),
        Call::DestroyStream => rig.destroy_stream(s),
        Call::SynchronizeStream => rig.synchronize_stream(s),
        Call::QueryStream => rig.query_stream(s).map(drop),
        Call::WaitEvent => rig.wait_event(other, event),
        Call::CreateEvent => rig.driver.create_event(false).map(drop),
        Call::DestroyEvent => rig.destroy_event(event),
        Call::RecordEvent => rig.record_event(event, s),
        Call::QueryEvent => rig.query_event(event).map(drop),
        Call::SynchronizeEvent => rig.synchronize_event(event),
        Call::ElapsedMs => rig.elapsed_ms(event, second).map(drop),
        Call::Alloc => rig.alloc(1, s).map(drop),
        Call::Free => rig.free(a, s),
        Call::PoolStats => rig.driver.pool_stats().map(drop),
        Call::SetPool => rig.driver.set_release_threshold(0),
        Call::TrimPool => rig.driver.trim_pool(0),
        Call::RegisterHost => rig.register_host(spare.memory()),
        Call::UnregisterHost => rig.unregister_host(host.memory()),
        Call::AllocWriteCombined => rig.driver.alloc_write_combined(64).map(drop),
        // SAFETY: any order of calls is sound on the simulated device; see the rig's text. This
        // holds for all calls below.
        Call::FreeWriteCombined => unsafe { rig.driver.free_write_combined(combined) },
        Call::AllocManaged => rig.driver.alloc_managed(64).map(drop),
        // SAFETY: as above.
        Call::FreeManaged => unsafe { rig.driver.free_managed(managed) },
        // SAFETY: as above.
        Call::Prefetch => unsafe { rig.driver.prefetch(managed, 64, Location::Host, s) },
        // SAFETY: as above.
        Call::Advise => unsafe { rig.driver.advise(managed, 64, Advice::SetReadMostly) },
        Call::MappedAddress => rig.driver.mapped_address(host.memory().address()).map(drop),
        Call::CopyToDevice => rig.upload(a, host, 1, s),
        Call::CopyToHost => rig.download(host, a, 1, s),
        Call::Copy => rig.copy(a, b, 4, s),
        Call::CopyRows => {
            let extent = Rows {
                width_bytes: 2,
                height: 2,
                depth: 1,
            };
            let pitch = Pitch { bytes: 4, rows: 2 };
            rig.copy_rows((a, pitch), (b, pitch), extent, s)
        }
        Call::PeerAccess => rig.driver.peer_access(rig.driver.peer()).map(drop),
        Call::CopyPeer => rig.copy_peer((&rig.driver, a), (&rig.driver, b), 4, s),
        Call::CommunicatorInit => rig.driver.communicator(&[rig.driver.peer()]).map(drop),
        Call::Collective => {
            let part = Part {
                stream: s,
                send: a,
                receive: a,
            };
            let by = Collective::AllReduce(Reduction::Sum);
            // SAFETY: the call is refused before anything is enqueued, or stays within `a`, which
            // has 64 bytes.
            unsafe { ranks.enqueue(by, Number::U8, 64, &[part]) }
        }
        Call::CollectiveStatus => ranks.status(),
        Call::Fill => rig.fill(a, &[1], 1, s),
        Call::Prepare => rig.driver.prepare(&kernels::ADD),
        // SAFETY: the image is PTX that ends in a NUL.
        Call::LoadModule => unsafe { rig.driver.load_module(&IMAGE.0) }.map(drop),
        // SAFETY: the module is live, and has no functions in use.
        Call::UnloadModule => unsafe { rig.driver.unload_module(module) },
        // SAFETY: the module is live.
        Call::ModuleFunction => unsafe { rig.driver.module_function(module, c"f") }.map(drop),
        Call::KernelAttributes => rig.driver.kernel_attributes(&kernels::ADD).map(drop),
        Call::MaxActiveBlocks => rig.driver.max_active_blocks(&kernels::ADD, 256, 0).map(drop),
        Call::SuggestBlock => rig.driver.suggest_block(&kernels::ADD, 0).map(drop),
        Call::Launch => rig.add(a, 1, 1, s),
        Call::LaunchHostFunction => {
            unsafe extern "C" fn run(_: *mut c_void) {
                panic!("a call that fails enqueues nothing");
            }
            // SAFETY: the stream is live, and the function touches no memory.
            unsafe {
                rig.driver
                    .launch_host_function(s, HostFunction { run, data: 0 }, &[])
            }
        }
        Call::BeginCapture => rig.begin_capture(s),
        Call::EndCapture => rig.end_capture(s).map(drop),
        Call::CapturedNode => rig.captured_node(s).map(drop),
        Call::UpdateGraph => rig.update_graph(graph, s),
        Call::SetLaunch => rig.set_add((graph, node), a, 1, 2),
        Call::LaunchGraph => rig.launch_graph(graph, s),
        Call::DestroyGraph => rig.destroy_graph(graph),
        other => panic!("{other:?} is not tested"),
    };
    let after = rig.sim().counters();
    if ends_a_capture(call) {
        rig.record_event(event, s).unwrap();
        rig.synchronize_event(event).unwrap();
    }
    (result.unwrap_err(), before, after)
}

fn ends_a_capture(call: Call) -> bool {
    matches!(call, Call::EndCapture | Call::UpdateGraph)
}

/// The counters that a failed call may not change.
fn held(counters: &Counters) -> [u64; 9] {
    [
        counters.streams_live as u64,
        counters.events_live as u64,
        counters.graphs_live as u64,
        counters.allocations_live as u64,
        counters.bytes_live,
        counters.registrations_live as u64,
        counters.managed_live as u64,
        counters.operations_pending as u64,
        counters.operations_run,
    ]
}

#[test]
fn a_call_that_fails_changes_nothing() {
    for &call in Call::ALL {
        let rig = Rig::new(SimConfig::new().order(Order::Lazy).seed(11));
        let (error, before, after) = call_all(&rig, call, ErrorCode::INVALID_VALUE);
        assert_eq!(
            (error.call(), error.code()),
            (call.name(), ErrorCode::INVALID_VALUE)
        );
        assert!(
            error.to_string().contains("injected (simulated device, seed 11)"),
            "{error}"
        );
        assert_eq!(after.calls(call), before.calls(call) + 1);
        let mut want = held(&before);
        if ends_a_capture(call) {
            want[3] -= 1; // the capture's own block goes with it
            want[4] -= 256;
        }
        assert_eq!(held(&after), want, "{call:?}");
    }
}

#[test]
fn every_call_can_fail_and_then_works() {
    let rig = Rig::seeded(1);
    let s = rig.stream();
    rig.sim().fail_nth(Call::Alloc, 3, ErrorCode::OUT_OF_MEMORY);
    let codes: Vec<_> = (0..5).map(|_| rig.alloc(1, s).err().map(|e| e.code())).collect();
    assert_eq!(codes, [None, None, Some(ErrorCode::OUT_OF_MEMORY), None, None]);
    rig.sim().fail_next(Call::Alloc, ErrorCode::OUT_OF_MEMORY);
    rig.sim().clear_faults();
    rig.alloc(1, s).unwrap();
}

#[test]
fn a_sticky_error_loses_the_device() {
    let rig = Rig::new(SimConfig::new().order(Order::Lazy));
    let s = rig.stream();
    let (data, host) = (rig.alloc(4, s).unwrap(), Host::new(4));
    rig.fill(data, &[1], 4, s).unwrap();
    rig.download(host, data, 1, s).unwrap();
    rig.sim()
        .fail_next(Call::RecordEvent, ErrorCode::ECC_UNCORRECTABLE);
    let event = rig.event();
    assert!(rig.record_event(event, s).unwrap_err().is_sticky());
    let before = rig.sim().counters();
    for error in [
        rig.synchronize_stream(s).unwrap_err(),
        rig.synchronize_event(event).unwrap_err(),
        rig.query_event(event).unwrap_err(),
        rig.free(data, s).unwrap_err(),
        rig.driver.create_stream(0).unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::ECC_UNCORRECTABLE);
    }
    assert_eq!(held(&rig.sim().counters()), held(&before));
    assert_eq!(host.get(1), [0], "pending work never runs");
}

#[test]
fn a_kernel_that_panics_loses_the_device_and_says_where() {
    for order in [Order::Random, Order::Lazy, Order::Eager] {
        let rig = Rig::new(SimConfig::new().order(order).seed(23));
        let s = rig.stream();
        let (data, host) = (rig.alloc(4, s).unwrap(), Host::new(4));
        let event = rig.event();
        rig.add(data, 1, kernels::TOO_MUCH, s).unwrap();
        let _ = rig.record_event(event, s);
        let _ = rig.download(host, data, 1, s);
        let error = rig.synchronize_stream(s).unwrap_err();
        assert_eq!(error.code(), ErrorCode::LAUNCH_FAILED);
        let text = error.to_string();
        for part in [
            "kernel `tests::add` panicked at ",
            "kernels.rs:",
            "666 is too much",
            "seed 23",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        let definition = format!("kernels.rs:{}: ", kernels::ADD.line);
        assert!(
            !text.contains(&definition),
            "{text} names where the kernel begins, not where it panicked"
        );
        assert!(rig.query_event(event).is_err(), "never taken for done");
        assert!(rig.alloc(4, s).is_err());
        assert_eq!(host.get(1), [0]);
    }
}

#[test]
fn a_launch_that_cuda_refuses_is_refused() {
    let rig = Rig::seeded(0);
    let s = rig.stream();
    let good = kernels::shape(1);
    let nothing: &[*const c_void] = &[];
    for shape in [
        LaunchShape {
            grid: [0, 1, 1],
            ..good
        },
        LaunchShape {
            grid: [1, 1 << 16, 1],
            ..good
        },
        LaunchShape {
            block: [1025, 1, 1],
            ..good
        },
        LaunchShape {
            block: [1 << 16, 1 << 16, 1],
            ..good
        },
        LaunchShape {
            shared_bytes: 1 << 20,
            ..good
        },
        good,
    ] {
        // SAFETY: the launch is refused for its shape, or (the last) for its parameters, before any
        // is read.
        let error = unsafe { rig.driver.launch(&kernels::ADD, &shape, nothing, s) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_VALUE);
    }
    assert_eq!(rig.sim().counters().operations_pending, 0);
}

#[test]
fn stale_handles_are_errors() {
    let rig = Rig::seeded(0);
    let (s, event) = (rig.stream(), rig.event());
    rig.destroy_event(event).unwrap();
    let later = rig.event();
    assert_ne!(event, later);
    assert_eq!(
        rig.record_event(event, s).unwrap_err().code(),
        ErrorCode::INVALID_HANDLE
    );
    assert_eq!(
        rig.destroy_event(event).unwrap_err().code(),
        ErrorCode::INVALID_HANDLE
    );
    rig.record_event(later, s).unwrap();
}

#[test]
fn host_memory_is_registered_once() {
    let rig = Rig::seeded(0);
    let host = Host::new(1);
    rig.register_host(host.memory()).unwrap();
    let again = rig.register_host(host.memory()).unwrap_err();
    assert_eq!(again.code(), ErrorCode::HOST_MEMORY_ALREADY_REGISTERED);
    rig.unregister_host(host.memory()).unwrap();
    assert!(rig.unregister_host(host.memory()).is_err());
}
