//! How well stages overlap by the modelled clock, and what the report says about it.

use std::sync::Mutex;

use cuda_rt::pipeline::{Pipeline, Report, StageKind};
use cuda_rt::simulator::{Call, Model, SimConfig};
use cuda_rt::{Device, Grid1};
use device_kernels::scale;

use super::*;

/// Runs `body` on a device where upload, kernel and download take 0.1 ms each, and calls are nearly
/// free.
fn even<T>(body: impl for<'id> FnOnce(Device<cuda_rt::Scoped<'id>>) -> T) -> T {
    let model = Model {
        to_device_gb_per_s: 4096.0 / 100_000.0,
        to_host_gb_per_s: 4096.0 / 100_000.0,
        copy_latency_ns: 0,
        kernel_floor_ns: 0,
        ..Model::default()
    };
    let config = SimConfig::new()
        .model(model)
        .kernel_ns_per_thread("device_kernels::elementwise::scale", 100_000.0 / 1024.0);
    Device::simulated(config, body).unwrap()
}

/// Runs `items` equal items, with a sink that takes `sink_us` for each.
fn run_even(buffers: usize, items: u32, sink_us: impl Fn(u32) -> u64 + Sync) -> Report {
    even(|gpu| {
        let simulator = gpu.simulator().unwrap();
        Pipeline::new(&gpu, buffers)
            .source(1024, 0..items, |_, pinned: &mut [f32]| Ok(pinned.len()))
            .upload::<Upload<_>>()
            .stage::<Compute<_>>(|stream, _, input, output| {
                scale(stream, Grid1::covering(output.len()), input, output, 2.0)
            })
            .download::<Download<_>>()
            .sink(|item, _| {
                simulator.spend_host_ns(sink_us(item) * 1000);
                Ok(())
            })
            .run()
            .unwrap()
    })
}

#[test]
fn two_buffers_keep_all_engines_busy_and_one_makes_them_take_turns() {
    ends(|| {
        for buffers in 2..=4 {
            let report = run_even(buffers, 200, |_| 0);
            let ms = report.wall.as_secs_f64() * 1e3;
            assert!((20.2..20.2 * 1.03).contains(&ms), "{buffers} buffers: {report}");
            assert!(report.efficiency() > 0.96 && report.overlap() > 0.64, "{report}");
            assert_eq!(report.more_buffers(), None, "{report}");
        }
        let report = run_even(1, 200, |_| 0);
        assert!(report.wall > Duration::from_millis(39), "{report}");
        let more = report.more_buffers().unwrap();
        assert!(
            more.buffers == 2 && (0.45..0.52).contains(&more.saved),
            "{report}"
        );
        assert!(
            report.to_string().contains("2 buffers would save about"),
            "{report}"
        );
    });
}

#[test]
fn a_sink_that_is_slow_at_times_is_hidden_by_as_many_buffers_as_the_report_says() {
    ends(|| {
        // 80 µs on average; the other stages take 100 µs.
        let sink = |item| if item % 10 == 9 { 800 } else { 0 };
        let few = run_even(2, 400, sink);
        let more = few.more_buffers().expect("more buffers would help");
        assert!(few.bottleneck().unwrap().stage.kind != StageKind::Sink, "{few}");
        let enough = run_even(more.buffers, 400, sink);
        let saved = 1.0 - enough.wall.as_secs_f64() / few.wall.as_secs_f64();
        assert!(
            (saved - more.saved).abs() < 0.03,
            "said {}, was {saved}\n{few}\n{enough}",
            more.saved
        );
        assert!(enough.efficiency() > 0.95, "{enough}");
        assert_eq!(enough.more_buffers(), None, "{enough}");
    });
}

#[test]
fn a_sink_that_is_too_slow_is_the_bottleneck_and_buffers_do_not_help() {
    ends(|| {
        let report = run_even(2, 300, |_| 250);
        assert_eq!(
            report.bottleneck().unwrap().stage.kind,
            StageKind::Sink,
            "{report}"
        );
        assert_eq!(report.more_buffers(), None, "{report}");
        assert!(report.stages[4].utilisation() > 0.97, "{report}");
        assert!(report.to_string().contains("sink sets the pace"), "{report}");
    });
}

#[test]
fn an_untimed_pipeline_records_no_times() {
    Device::simulated(SimConfig::new(), |gpu| {
        let report = Pipeline::new(&gpu, 2)
            .untimed()
            .source(4, 0..5, |_, pinned: &mut [u8]| Ok(pinned.len()))
            .upload::<Upload<_>>()
            .consume::<Compute<_>>(|_, _, _| Ok(()))
            .run()
            .unwrap();
        assert_eq!(report.items, 5);
        assert_eq!(gpu.simulator().unwrap().counters().calls(Call::ElapsedMs), 0);
        assert!(report.to_string().ends_with("nothing was timed"), "{report}");
    })
    .unwrap();
}

#[test]
fn a_watcher_is_told_of_each_stages_work_on_each_item() {
    ends(|| {
        let told = Mutex::new(Vec::new());
        let report = even(|gpu| {
            let simulator = gpu.simulator().unwrap();
            Pipeline::new(&gpu, 2)
                .source(1024, 0..20_u32, |_, pinned: &mut [f32]| {
                    simulator.spend_host_ns(70_000);
                    Ok(pinned.len())
                })
                .upload::<Upload<_>>()
                .stage::<Compute<_>>(|stream, _, input, output| {
                    scale(stream, Grid1::covering(output.len()), input, output, 2.0)
                })
                .download::<Download<_>>()
                .sink(|_, _| Ok(()))
                .watch(|worked| told.lock().unwrap().push(worked))
                .run()
                .unwrap()
        });
        let told = told.into_inner().unwrap();
        assert_eq!(told.len(), 5 * 20, "{told:?}");
        for (index, stage) in report.stages.iter().enumerate() {
            let of_stage: Vec<_> = told.iter().filter(|worked| worked.stage == index).collect();
            assert!(
                of_stage.iter().map(|worked| worked.item).eq(0..20),
                "{of_stage:?}"
            );
            let busy: Duration = of_stage.iter().map(|worked| worked.end - worked.start).sum();
            assert_eq!(busy, stage.busy, "{report}");
            assert_eq!((of_stage[0].start, of_stage[19].end), (stage.began, stage.ended));
        }
        // An item's work of one stage begins when the stage before it has ended.
        for (a, b) in told.iter().flat_map(|a| told.iter().map(move |b| (a, b))) {
            if a.item == b.item && a.stage + 1 == b.stage {
                assert!(a.end <= b.start + Duration::from_nanos(2), "{a:?} {b:?}");
            }
        }
    });
}
