//! Timelines of pipelines, on the simulated device and on every GPU.
#![forbid(unsafe_code)]

mod devices;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Model, SimConfig};
use cuda_rt::timeline::bench::Bench;
use cuda_rt::timeline::{self, Cause, Engine, Kind, Source, Timeline};
use cuda_rt::{Device, Error, Grid1, Handoff, Live, Priority, Result};
use device_kernels::scale;
use devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Download;
}

const ITEMS: usize = 12;
const LEN: usize = 1 << 14;

/// Uploads, scales and downloads `ITEMS` items on three streams, with `buffers` buffers for each.
fn pipeline<D: Live>(gpu: &Device<D>, buffers: usize) -> Result<()> {
    let (upload, compute, download) = (
        gpu.stream::<Upload<D>>()?,
        gpu.stream::<Compute<D>>()?,
        gpu.stream::<Download<D>>()?,
    );
    let mut ring = Vec::new();
    for _ in 0..buffers {
        let (input, output) = (upload.alloc_zeroed::<f32>(LEN)?, upload.alloc_zeroed::<f32>(LEN)?);
        let device = upload.release((input, output))?.split();
        ring.push((
            Handoff::ready(gpu.pinned::<f32>(LEN)?),
            device,
            Handoff::ready(gpu.pinned::<f32>(LEN)?),
        ));
    }
    for item in 0..ITEMS {
        let (host, (input, output), result) = ring.remove(0);
        let mut host = host.synchronize()?;
        {
            let _stage = gpu.scope("read");
            host.fill(item as f32);
            if let Some(simulator) = gpu.simulator() {
                simulator.spend_host_ns(1_000);
            }
        }
        let host = upload.adopt(host)?;
        let mut input = upload.acquire(input)?;
        upload.copy_to_device(&host, &mut input)?;
        let (host, input) = upload.release((host, input))?.split();

        let (input, mut output) = (compute.acquire(input)?, compute.acquire(output)?);
        scale(&compute, Grid1::covering(LEN), &input, &mut output, 2.0)?;
        let (input, output) = compute.release((input, output))?.split();

        let (output, mut result) = (download.acquire(output)?, download.acquire(result)?);
        download.copy_to_host(&output, &mut result)?;
        let (output, result) = download.release((output, result))?.split();
        ring.push((host, (input, output), result));
    }
    for (_, _, result) in ring {
        let result = result.synchronize()?;
        assert!(
            result
                .iter()
                .all(|value| *value % 2.0 == 0.0 && *value < 2.0 * ITEMS as f32)
        );
    }
    Ok(())
}

/// A configuration with copies and kernels of 100 µs each, and nearly free calls.
fn balanced() -> SimConfig {
    let bytes = (LEN * 4) as f64;
    let model = Model {
        to_device_gb_per_s: bytes / 1e5,
        to_host_gb_per_s: bytes / 1e5,
        copy_latency_ns: 0,
        kernel_floor_ns: 0,
        ..Model::default()
    };
    SimConfig::new()
        .model(model)
        .kernel_ns_per_thread("device_kernels::elementwise::scale", 1e5 / LEN as f64)
}

fn recorded<D: Live>(gpu: &Device<D>, buffers: usize) -> Timeline {
    pipeline(gpu, buffers).unwrap();
    let recording = gpu.record_timeline().unwrap();
    pipeline(gpu, buffers).unwrap();
    recording.finish().unwrap()
}

/// Spans come from the model, or from events, which CUDA always has.
#[test]
fn every_operation_has_its_span_on_every_device() {
    for_each_device(|gpu| check_spans(gpu, || gpu.record_timeline()));
    for_each_device(|gpu| check_spans(gpu, || gpu.record_timeline_by_events()));
}

fn check_spans<D: Live>(gpu: &Device<D>, record: impl Fn() -> Result<timeline::Recording<D>>) {
    pipeline(gpu, 2).unwrap();
    let recording = record().unwrap();
    pipeline(gpu, 2).unwrap();
    let timeline = recording.finish().unwrap();
    // Measured times are rounded.
    let slack_ns = if gpu.is_simulated() { 0 } else { 1_000 };
    let count = |kind| timeline.spans().iter().filter(|span| span.kind == kind).count();
    assert_eq!(timeline.missing(), 0);
    assert_eq!(
        [Kind::CopyToDevice, Kind::Kernel, Kind::CopyToHost].map(count),
        [ITEMS; 3]
    );
    let stages = timeline.spans().iter().filter(|span| span.label == "read");
    assert_eq!(stages.count(), ITEMS);
    assert_eq!(count(Kind::Fill), 4, "zeroed allocations");
    assert_eq!(count(Kind::HostWait), ITEMS, "but for the first of each buffer");
    let names: Vec<&str> = timeline.rows().iter().map(|row| row.name.as_str()).collect();
    assert_eq!(&names[..3], ["Upload", "Compute", "Download"]);
    assert!(timeline.rows()[3].is_host);
    assert_eq!(
        timeline.source() == Source::Model,
        gpu.is_simulated(),
        "modelled times say so"
    );
    for row in 0..3 {
        let work = |span: &&timeline::Span| span.kind.engine().is_some();
        let spans: Vec<_> = timeline.row_spans(row).iter().filter(work).collect();
        assert!(
            spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns),
            "a stream runs in order"
        );
    }
    // The order of an item: its copy, then its kernel, then its copy back.
    let starts = |kind| {
        let mut spans: Vec<_> = timeline.spans().iter().filter(|span| span.kind == kind).collect();
        spans.sort_by_key(|span| span.start_ns);
        spans
            .iter()
            .map(|span| (span.start_ns, span.end_ns))
            .collect::<Vec<_>>()
    };
    let (up, kernel, down) = (
        starts(Kind::CopyToDevice),
        starts(Kind::Kernel),
        starts(Kind::CopyToHost),
    );
    for item in 0..ITEMS {
        assert!(
            up[item].1 <= kernel[item].0 + slack_ns && kernel[item].1 <= down[item].0 + slack_ns,
            "item {item}"
        );
    }
}

#[test]
fn events_measure_the_spans_of_the_model() {
    let by = |events: bool| {
        Device::simulated(balanced(), |gpu| {
            pipeline(&gpu, 1).unwrap();
            let recording = if events {
                gpu.record_timeline_by_events()
            } else {
                gpu.record_timeline()
            };
            let recording = recording.unwrap();
            pipeline(&gpu, 1).unwrap();
            recording.finish().unwrap()
        })
        .unwrap()
    };
    // One buffer, so that streams have to wait.
    let (model, events) = (by(false), by(true));
    assert_eq!(model.rows(), events.rows());
    let near = |a: u64, b: u64| a.abs_diff(b) < 10_000;
    for row in 0..model.rows().len() {
        for kind in [
            Kind::CopyToDevice,
            Kind::Kernel,
            Kind::CopyToHost,
            Kind::Wait,
            Kind::HostWait,
        ] {
            let of = |timeline: &Timeline| {
                let long = |span: &&timeline::Span| span.kind == kind && span.duration_ns() > 20_000;
                timeline
                    .row_spans(row)
                    .iter()
                    .filter(long)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let (model, events) = (of(&model), of(&events));
            // The model also knows how long a stream waited before its first operation.
            let first = usize::from(kind == Kind::Wait && model.len() > events.len());
            assert_eq!(model.len() - first, events.len(), "{kind:?} of row {row}");
            for (a, b) in model[first..].iter().zip(&events) {
                assert!(
                    near(a.start_ns, b.start_ns) && near(a.end_ns, b.end_ns),
                    "{a:?} {b:?}"
                );
                assert_eq!(a.waits_for, b.waits_for);
            }
        }
    }
}

#[test]
fn events_return_to_their_pool_while_a_recording_goes_on() {
    Device::simulated(SimConfig::new(), |gpu| {
        let recording = gpu.record_timeline_by_events().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(16).unwrap();
        for _ in 0..40 {
            for _ in 0..100 {
                compute.fill(&mut data, 1.0).unwrap();
            }
            compute.synchronize().unwrap();
        }
        let live = gpu.simulator().unwrap().counters().events_live;
        assert!(live < 600, "{live} events for 4000 operations");
        let timeline = recording.finish().unwrap();
        assert_eq!(timeline.row_spans(0).len(), 4001);
    })
    .unwrap();
}

#[test]
fn an_event_that_cannot_be_had_is_counted_and_fails_nothing() {
    Device::simulated(SimConfig::new(), |gpu| {
        let recording = gpu.record_timeline_by_events().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(16).unwrap();
        let simulator = gpu.simulator().unwrap();
        for nth in [1, 2] {
            simulator.fail_nth(Call::RecordEvent, nth, ErrorCode::OUT_OF_MEMORY);
            compute.fill(&mut data, 1.0).unwrap();
        }
        simulator.clear_faults();
        compute.fill(&mut data, 1.0).unwrap();
        let timeline = recording.finish().unwrap();
        assert_eq!((timeline.missing(), timeline.spans().len()), (2, 2));
    })
    .unwrap();
}

#[test]
fn two_buffers_keep_the_bound_busy_and_the_figures_say_so() {
    let config = balanced();
    let (one, two) = Device::simulated(config, |gpu| (recorded(&gpu, 1), recorded(&gpu, 3))).unwrap();
    let (one, two) = (one.figures(), two.figures());
    assert!(one.efficiency().unwrap() < 0.5, "{one}");
    let steady = two
        .engines
        .iter()
        .map(|engine| engine.steady_utilisation().unwrap());
    // The compute engine zeroes the buffers before the first kernel.
    assert!(steady.clone().all(|share| share > 0.9), "{two}");
    let ideal = ITEMS as f64 / (ITEMS as f64 + 2.0);
    assert!((two.efficiency().unwrap() - ideal).abs() < 0.03, "{two}");
    assert!(two.overlap_ratio().unwrap() > 0.5, "{two}");
}

#[test]
fn gaps_of_a_single_buffer_are_waits_for_the_other_streams() {
    Device::simulated(balanced(), |gpu| {
        let timeline = recorded(&gpu, 1);
        let compute: Vec<_> = timeline.gaps().into_iter().filter(|gap| gap.row == 1).collect();
        assert_eq!(compute.len(), ITEMS - 1);
        for gap in &compute {
            let Cause::Wait { span: Some(span) } = gap.cause else {
                panic!("{}", timeline.explain(gap))
            };
            assert_eq!(timeline.spans()[span].kind, Kind::CopyToDevice);
            assert_eq!(timeline.spans()[span].end_ns, gap.end_ns);
        }
        let upload: Vec<_> = timeline.gaps().into_iter().filter(|gap| gap.row == 0).collect();
        for gap in &upload[upload.len() - ITEMS + 1..] {
            assert_eq!(timeline.explain(gap), "waited for `scale` of Compute");
        }
    })
    .unwrap();
}

#[test]
fn modelled_figures_do_not_depend_on_the_order_of_the_bytes() {
    let figures = |seed| Device::simulated(balanced().seed(seed), |gpu| recorded(&gpu, 2).figures()).unwrap();
    let first = figures(0);
    assert!((1..6).all(|seed| figures(seed) == first));
}

#[test]
fn recording_changes_no_modelled_time() {
    let time = |record: bool| {
        Device::simulated(balanced(), |gpu| {
            let recording = record.then(|| gpu.record_timeline().unwrap());
            pipeline(&gpu, 2).unwrap();
            let now = gpu.simulator().unwrap().host_now_ns();
            drop(recording);
            now
        })
        .unwrap()
    };
    assert_eq!(time(true), time(false));
}

#[test]
fn a_device_has_one_recording_at_a_time() {
    for_each_device(|gpu| {
        let first = gpu.record_timeline().unwrap();
        assert!(matches!(gpu.record_timeline(), Err(Error::AlreadyRecording)));
        drop(first);
        let second = gpu.record_timeline().unwrap();
        pipeline(gpu, 1).unwrap();
        assert!(!second.finish().unwrap().spans().is_empty());
        if let Some(simulator) = gpu.simulator() {
            simulator.record_spans(true);
            pipeline(gpu, 1).unwrap();
        }
        let third = gpu.record_timeline().unwrap();
        assert!(
            third.finish().unwrap().spans().is_empty(),
            "what is finished is not told again"
        );
    });
}

#[test]
fn work_that_fails_fails_as_without_a_recording() {
    Device::simulated(SimConfig::new(), |gpu| {
        let recording = gpu.record_timeline().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(LEN).unwrap();
        gpu.simulator()
            .unwrap()
            .fail_next(Call::Fill, ErrorCode::INVALID_VALUE);
        assert!(compute.fill(&mut data, 1.0).is_err());
        compute.fill(&mut data, 1.0).unwrap();
        assert_eq!(recording.finish().unwrap().row_spans(0).len(), 2);
    })
    .unwrap();
}

#[test]
fn scopes_reach_the_recordings_that_are_going_on() {
    Device::simulated(SimConfig::new(), |gpu| {
        drop(timeline::scope("before any"));
        let recording = gpu.record_timeline().unwrap();
        let spend = |ns| gpu.simulator().unwrap().spend_host_ns(ns);
        {
            let _outer = timeline::scope("scopes: outer");
            spend(10);
            let _inner = timeline::scope(format!("scopes: inner {}", 1));
            spend(5);
        }
        let timeline = recording.finish().unwrap();
        // Tests run side by side in one process, and share their scopes.
        let mine: Vec<_> = timeline
            .spans()
            .iter()
            .filter(|span| span.label.starts_with("scopes: "))
            .map(|span| (span.label.as_ref(), span.duration_ns()))
            .collect();
        assert_eq!(mine, [("scopes: outer", 15), ("scopes: inner 1", 5)]);
    })
    .unwrap();
}

/// N workers have N rows, with their own names. A stream that is no longer held has its tag's name.
#[test]
fn streams_of_run_time_have_rows_with_their_names() {
    Device::simulated(SimConfig::new(), |gpu| {
        let recording = gpu.record_timeline().unwrap();
        let workers =
            ["worker 0", "worker 1", "dropped"].map(|name| gpu.create_stream(name, Priority::Low).unwrap());
        for worker in &workers {
            worker.run(|s| drop(s.alloc_zeroed::<u32>(64).unwrap()));
        }
        let [_first, _second, dropped] = workers;
        drop(dropped);
        let timeline = recording.finish().unwrap();
        let rows = timeline.rows().iter().filter(|row| !row.is_host);
        let names: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["worker 0", "worker 1", "Branded"]);
    })
    .unwrap();
}

#[test]
fn host_threads_have_rows_of_their_own() {
    Device::simulated(SimConfig::new(), |gpu| {
        let recording = gpu.record_timeline().unwrap();
        std::thread::scope(|scope| {
            for name in ["reader", "writer"] {
                let gpu = &gpu;
                let work = move || drop(gpu.scope(name));
                std::thread::Builder::new()
                    .name(name.into())
                    .spawn_scoped(scope, work)
                    .unwrap();
            }
        });
        let timeline = recording.finish().unwrap();
        // Tests run side by side in one process, and the scopes of others have rows here too.
        let mut names: Vec<_> = timeline
            .rows()
            .iter()
            .filter(|row| row.is_host)
            .map(|row| row.name.as_ref())
            .filter(|name| ["reader", "writer"].contains(name))
            .collect();
        names.sort();
        assert_eq!(names, ["reader", "writer"]);
    })
    .unwrap();
}

#[test]
fn a_bench_measures_the_time_of_the_work() {
    Device::simulated(balanced(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (input, mut output) = (
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
        );
        let mut runs = 0;
        let samples = Bench::new()
            .warm_up(2)
            .samples(5)
            .repeats(4)
            .run(&compute, |compute| {
                runs += 1;
                scale(compute, Grid1::covering(LEN), &input, &mut output, 1.0)
            })
            .unwrap();
        assert_eq!((runs, samples.ns().len()), (2 + 5 * 4, 5));
        assert!((samples.median_ns() - 1e5).abs() < 2e3, "{samples}");
        assert!(samples.spread() < 0.01);
    })
    .unwrap();
}

#[test]
fn work_on_an_engine_only_counts_there() {
    Device::simulated(balanced(), |gpu| {
        let figures = recorded(&gpu, 2).figures();
        let bytes = |engine| {
            figures
                .engines
                .iter()
                .find(|of| of.engine == engine)
                .unwrap()
                .bytes
        };
        assert_eq!(bytes(Engine::ToDevice), (ITEMS * LEN * 4) as u64);
        assert_eq!(bytes(Engine::ToHost), (ITEMS * LEN * 4) as u64);
    })
    .unwrap();
}

/// Both ways of measuring see the same work. Needs a GPU, `libcupti`, and no profiler; prints a
/// message if it is skipped.
#[cfg(feature = "cupti")]
#[test]
fn cupti_and_events_agree() {
    let checked = Device::for_each_gpu(|gpu| {
        pipeline(&gpu, 2).unwrap();
        let recording = gpu.record_timeline().unwrap();
        pipeline(&gpu, 2).unwrap();
        let by_cupti = recording.finish().unwrap();
        if by_cupti.source() != Source::Cupti {
            return false;
        }
        let recording = gpu.record_timeline_by_events().unwrap();
        pipeline(&gpu, 2).unwrap();
        let by_events = recording.finish().unwrap();
        let (cupti, events) = (by_cupti.figures(), by_events.figures());
        println!("{cupti}{events}{}{}", by_cupti.gantt(120), by_events.gantt(120));
        assert_eq!((by_cupti.missing(), by_events.missing()), (0, 0));
        assert_eq!(cupti.engines.len(), events.engines.len());
        for (cupti, events) in cupti.engines.iter().zip(&events.engines) {
            assert_eq!((cupti.engine, cupti.spans), (events.engine, events.spans));
            assert!(
                cupti.busy_ns <= events.busy_ns + 2_000 * events.spans as u64,
                "events lie around the work: {cupti:?} {events:?}"
            );
        }
        let kernels = by_cupti.totals(Kind::Kernel);
        assert_eq!(
            kernels[0].0, "device_kernels::elementwise::scale",
            "named as it was launched"
        );
        true
    });
    if !checked.unwrap().contains(&true) {
        let why = cuda_rt::driver_cuda::why_no_cupti().unwrap_or_else(|| "there is no GPU".into());
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_CUPTI").is_none(),
            "CUPTI is required, and not to be had: {why}"
        );
        eprintln!("SKIPPED: {why}");
    }
}
