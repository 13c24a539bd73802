//! The text of an error, and what still works after one: the table in the documentation of
//! [`cuda_rt::Error`].
#![forbid(unsafe_code)]

use cuda_rt::Layout2;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceViewMut, Error, Graph, Grid1, Idle, Live, Scoped, Stream,
};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Download;
}

const LEN: usize = 64;

const STICKY: &[ErrorCode] = &[
    ErrorCode::ECC_UNCORRECTABLE,
    ErrorCode::ILLEGAL_ADDRESS,
    ErrorCode::ASSERT,
    ErrorCode::MISALIGNED_ADDRESS,
    ErrorCode::LAUNCH_FAILED,
    ErrorCode::CONTEXT_IS_DESTROYED,
];

const PLAIN: &[ErrorCode] = &[
    ErrorCode::INVALID_VALUE,
    ErrorCode::OUT_OF_MEMORY,
    ErrorCode::INVALID_HANDLE,
    ErrorCode::NOT_SUPPORTED,
];

fn config(seed: u64) -> SimConfig {
    SimConfig::new().seed(seed).order(Order::Lazy)
}

type Compute_<'id> = Stream<Compute<Scoped<'id>>>;

/// A driver call, a call of the typed API that makes it, and the name of the latter.
type Attempt = (
    Call,
    &'static str,
    for<'id> fn(&Device<Scoped<'id>>, &Compute_<'id>) -> Result<(), Error>,
);

/// Calls of the typed API that make one driver call each.
fn attempts() -> Vec<Attempt> {
    vec![
        (Call::Alloc, "Stream::alloc_uninit", |_, compute| {
            compute.alloc_uninit::<u32>(LEN).map(drop)
        }),
        (Call::Fill, "Stream::alloc_zeroed", |_, compute| {
            compute.alloc_zeroed::<u32>(LEN).map(drop)
        }),
        (Call::RecordEvent, "Stream::release", |_, compute| {
            compute.release(compute.alloc_uninit::<u32>(LEN)?).map(drop)
        }),
        (Call::RecordEvent, "Stream::record_event", |_, compute| {
            compute.record_event().map(drop)
        }),
        (Call::RecordEvent, "Stream::record_timed_event", |_, compute| {
            compute.record_timed_event().map(drop)
        }),
        (Call::WaitEvent, "Stream::acquire", |gpu, compute| {
            let handoff = compute.release(compute.alloc_uninit::<u32>(LEN)?)?;
            gpu.stream::<Download<_>>()?.acquire(handoff).map(drop)
        }),
        (Call::WaitEvent, "Stream::wait_event", |gpu, compute| {
            gpu.stream::<Download<_>>()?.wait_event(&compute.record_event()?)
        }),
        (Call::SynchronizeEvent, "Handoff::synchronize", |_, compute| {
            let handoff = compute.release(compute.alloc_uninit::<u32>(LEN)?)?;
            handoff.synchronize().map(drop)
        }),
        (Call::SynchronizeEvent, "Event::synchronize", |_, compute| {
            compute.record_event()?.synchronize()
        }),
        (Call::SynchronizeStream, "Stream::synchronize", |_, compute| {
            compute.synchronize()
        }),
        (Call::RegisterHost, "Device::pinned", |gpu, _| {
            gpu.pinned::<u32>(1 << 20).map(drop)
        }),
        (Call::RegisterHost, "Device::pinned_uninit", |gpu, _| {
            gpu.pinned_uninit::<u32>(1 << 20).map(drop)
        }),
        (Call::RegisterHost, "Device::pinned_from", |gpu, _| {
            gpu.pinned_from(&[0_u32; 1 << 16]).map(drop)
        }),
        // Calls that make other calls of this crate name themselves, and not the inner call.
        (Call::Alloc, "Stream::alloc_from_slice", |_, compute| {
            compute.alloc_from_slice(&[0_u32; LEN]).map(drop)
        }),
        (Call::RegisterHost, "Stream::alloc_from_slice", |_, compute| {
            compute.alloc_from_slice(&[0_u32; 1 << 16]).map(drop)
        }),
        (Call::CopyToDevice, "Stream::init_from_slice", |_, compute| {
            compute
                .init_from_slice(compute.alloc_uninit(LEN)?, &[0_u32; LEN])
                .map(drop)
        }),
        (Call::CopyToDevice, "Stream::copy_from_slice", |_, compute| {
            compute.copy_from_slice(&[0_u32; LEN], &mut compute.alloc_zeroed(LEN)?)
        }),
        (Call::RegisterHost, "Stream::copy_to_vec", |_, compute| {
            compute
                .copy_to_vec(&compute.alloc_zeroed::<u32>(1 << 16)?)
                .map(drop)
        }),
        (Call::SynchronizeEvent, "Stream::copy_to_slice", |_, compute| {
            compute.copy_to_slice(&compute.alloc_zeroed::<u32>(LEN)?, &mut [0; LEN])
        }),
        (Call::MemoryInfo, "Device::memory_info", |gpu, _| {
            gpu.memory_info().map(drop)
        }),
        (Call::TrimPool, "Device::trim", |gpu, _| gpu.trim(0)),
        (Call::Copy, "Stream::copy", |_, compute| {
            let (a, mut b) = (compute.alloc_zeroed::<u32>(LEN)?, compute.alloc_zeroed(LEN)?);
            compute.copy(&a, &mut b)
        }),
        (Call::CopyRows, "Stream::copy_rows", |_, compute| {
            let (a, mut b) = (compute.alloc_zeroed::<u32>(LEN)?, compute.alloc_zeroed(LEN)?);
            compute.copy_rows(&a, Layout2::packed(2, 2), &mut b, Layout2::packed(2, 2))
        }),
        (Call::CopyToDevice, "Stream::copy_to_device", |gpu, compute| {
            let host = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
            compute.copy_to_device(&host, &mut compute.alloc_zeroed(LEN)?)
        }),
        (Call::CopyToHost, "Stream::copy_to_host", |gpu, compute| {
            let mut host = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
            compute.copy_to_host(&compute.alloc_zeroed(LEN)?, &mut host)
        }),
        (Call::BeginCapture, "Stream::capture", |_, compute| {
            graph(compute).map(drop)
        }),
        (Call::EndCapture, "Stream::capture", |_, compute| {
            graph(compute).map(drop)
        }),
        (Call::LaunchGraph, "Graph::launch", |_, compute| {
            graph(compute)?.launch(compute)
        }),
        (Call::SetLaunch, "Graph::update", |_, compute| {
            graph(compute)?.update(|stream, pair| work(stream, pair, (0.0, 2.0)))
        }),
        (Call::UpdateGraph, "Graph::update", |_, compute| {
            graph(compute)?.update(|stream, pair| work(stream, pair, (1.0, 1.0)))
        }),
        (Call::UpdateGraph, "Graph::replace", |_, compute| {
            let spare = (compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?);
            let replaced = graph(compute)?.replace(spare, |stream, pair| work(stream, pair, (0.0, 1.0)));
            Ok(replaced.map(drop)?)
        }),
        (Call::QueryEvent, "Event::query", |_, compute| {
            compute.record_event()?.query().map(drop)
        }),
    ]
}

type Floats<'id> = DeviceBuffer<f32, Idle<Scoped<'id>>>;

type View<'g, 'id> = DeviceViewMut<'g, f32, Captured<'g, Compute<Scoped<'id>>>>;

/// A fill and a launch.
fn graph<'id>(
    compute: &Compute_<'id>,
) -> Result<Graph<(Floats<'id>, Floats<'id>), Compute<Scoped<'id>>>, Error> {
    let pair = (compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?);
    compute.capture(pair, |stream, pair| work(stream, pair, (0.0, 1.0)))
}

fn work<'g, 'id>(
    stream: &'g Stream<Captured<'g, Compute<Scoped<'id>>>>,
    (mut a, mut b): (View<'g, 'id>, View<'g, 'id>),
    (fill, factor): (f32, f32),
) -> Result<(), Error> {
    stream.fill(&mut a, fill)?;
    scale(stream, Grid1::covering(LEN), &a, &mut b, factor)
}

/// The error of a launch also names the kernel and its place in the source.
#[test]
fn an_error_of_a_launch_names_the_kernel() {
    for code in STICKY.iter().chain(PLAIN) {
        Device::simulated(config(0), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let (a, mut b) = (
                compute.alloc_zeroed::<f32>(LEN).unwrap(),
                compute.alloc_zeroed(LEN).unwrap(),
            );
            gpu.simulator().unwrap().fail_next(Call::Launch, *code);
            let error = scale(&compute, Grid1::covering(LEN), &a, &mut b, 1.0).unwrap_err();
            let text = error.to_string();
            let name = format!(
                "launch of `device_kernels::elementwise::scale` at {}:{} (declared at device-kernels/src/elementwise.rs:",
                file!(),
                line!() - 5
            );
            assert!(text.starts_with(&name), "{text}");
            let rest = format!(
                "): cuLaunchKernel failed: {} ({}): {}",
                code.name(),
                code.0,
                code.meaning()
            );
            assert!(text.contains(&rest), "{text}");
            assert_eq!(error.is_sticky(), STICKY.contains(code), "{text}");
            assert_eq!(
                text.ends_with("the device is lost to this process"),
                error.is_sticky()
            );
        })
        .unwrap();
    }
}

/// The message has the call of the typed API, the driver's call, the code, its number and its
/// meaning. A sticky error is marked.
#[test]
fn errors_name_the_call_the_code_and_its_meaning() {
    for code in STICKY.iter().chain(PLAIN) {
        for (call, ours, attempt) in attempts() {
            Device::simulated(config(0), |gpu| {
                let compute = gpu.stream::<Compute<_>>().unwrap();
                // Each allocation is a call.
                gpu.set_memory_caching(false);
                gpu.simulator().unwrap().fail_next(call, *code);
                let error = attempt(&gpu, &compute).unwrap_err();
                assert_eq!(gpu.simulator().unwrap().pending_faults(), 0);
                let text = error.to_string();
                let start = format!(
                    "{ours}: {} failed: {} ({}): {}",
                    call.name(),
                    code.name(),
                    code.0,
                    code.meaning()
                );
                assert!(text.starts_with(&start), "{text}\nshould start with\n{start}");
                let sticky = STICKY.contains(code);
                assert_eq!((error.is_sticky(), code.is_sticky()), (sticky, sticky), "{text}");
                assert_eq!(
                    text.ends_with("the device is lost to this process"),
                    sticky,
                    "{text}"
                );
                assert_eq!(error.driver().unwrap().call(), call.name());
            })
            .unwrap();
        }
    }
}

/// Uploads, fills and downloads, as a program would after an error.
fn round_trip<D: Live>(gpu: &Device<D>, value: u32) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut buffer = compute.alloc_zeroed::<u32>(LEN)?;
    compute.fill(&mut buffer, value)?;
    let buffer = download.acquire(compute.release(buffer)?)?;
    let mut host = download.adopt(gpu.pinned::<u32>(LEN)?)?;
    download.copy_to_host(&buffer, &mut host)?;
    assert_eq!(*download.release(host)?.synchronize()?, [value; LEN]);
    Ok(())
}

#[test]
fn the_device_goes_on_after_a_plain_error() {
    for (seed, code) in (0..).zip(PLAIN) {
        for (call, _, attempt) in attempts() {
            Device::simulated(config(seed), |gpu| {
                // Each allocation is a call.
                gpu.set_memory_caching(false);
                let compute = gpu.stream::<Compute<_>>().unwrap();
                // Each attempt makes the call that fails.
                gpu.keep_redundant_edges(true);
                round_trip(&gpu, 1).unwrap();
                gpu.simulator().unwrap().fail_next(call, *code);
                attempt(&gpu, &compute).unwrap_err();
                for value in 2..5 {
                    round_trip(&gpu, value).unwrap();
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn finished_results_stay_and_pending_ones_stay_hidden_after_a_sticky_error() {
    for (seed, code) in (0..).zip(STICKY) {
        Device::simulated(config(0), |other| {
            Device::simulated(config(seed), |gpu| {
                let (compute, download) = (
                    gpu.stream::<Compute<_>>().unwrap(),
                    gpu.stream::<Download<_>>().unwrap(),
                );
                let mut buffer = compute.alloc_zeroed::<u32>(LEN).unwrap();
                compute.fill(&mut buffer, 7).unwrap();
                let mut first = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
                compute.copy_to_host(&buffer, &mut first).unwrap();
                let mut first = compute.release(first).unwrap().synchronize().unwrap();
                let spare = gpu.pinned::<u32>(LEN).unwrap();

                // This work is pending when the device is lost.
                compute.fill(&mut buffer, 8).unwrap();
                let mut second = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
                compute.copy_to_host(&buffer, &mut second).unwrap();
                let mut pending = compute.release((buffer, second)).unwrap();
                let event = compute.record_event().unwrap();
                let mut graph = graph(&compute).unwrap();
                graph.launch(&compute).unwrap();
                gpu.simulator().unwrap().fail_next(Call::Alloc, *code);
                compute.alloc_uninit::<u32>(1).unwrap_err();

                // The host owns memory that was waited for, and may read and write it.
                assert_eq!(*first, [7; LEN]);
                first.fill(3);
                assert_eq!(first.iter().sum::<u32>(), 3 * LEN as u32);

                // Every call fails with the same code; pending data is never shown.
                let lost = |error: Error| {
                    assert!(error.is_sticky(), "{error}");
                    assert_eq!(error.driver().unwrap().code(), *code);
                };
                for _ in 0..3 {
                    let refused = pending.try_synchronize().unwrap_err();
                    lost(refused.error);
                    let refused = refused.value.query().unwrap_err();
                    lost(refused.error);
                    pending = refused.value;
                }
                lost(event.query().unwrap_err());
                lost(compute.synchronize().unwrap_err());
                lost(gpu.memory_info().unwrap_err());
                lost(graph.launch(&compute).unwrap_err());
                lost(
                    graph
                        .update(|stream, pair| work(stream, pair, (0.0, 2.0)))
                        .unwrap_err(),
                );
                lost(gpu.pinned::<u8>(1 << 20).unwrap_err());
                let refused = download.try_acquire(pending).unwrap_err();
                lost(refused.error);

                // A block that was seen idle can be reused, because that needs no call.
                drop(spare);
                assert_eq!(*gpu.pinned::<u32>(LEN).unwrap(), [0; LEN]);

                // Dropping everything neither blocks nor panics; another device still works.
                drop(refused.value);
                drop(graph.into_inner());
                drop((compute, download, event, first));
                round_trip(&other, 5).unwrap();
            })
            .unwrap();
        })
        .unwrap();
    }
}
