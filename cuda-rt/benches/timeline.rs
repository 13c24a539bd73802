//! Measures the host's cost of a recording, for each call:
//! `cargo bench -p cuda-handoff --bench timeline`.
//!
//! It runs on the first GPU, or on the simulated device. The simulation itself takes host time, so
//! there only the differences are meaningful.
#![forbid(unsafe_code)]

use std::time::Instant;

use cuda_rt::timeline::bench::Samples;
use cuda_rt::timeline::{self, Recording};
use cuda_rt::{Device, Gpu, Result};

cuda_rt::streams! { Compute; Download; }

/// The calls of a sample: few enough that no queue fills up.
const CALLS: usize = 200;
const SAMPLES: usize = 200;

/// The mean time of one call. The wait for the enqueued work is not measured.
fn per_call(mut call: impl FnMut() -> Result<()>, mut settle: impl FnMut() -> Result<()>) -> Result<Samples> {
    let mut ns = Vec::new();
    for sample in 0..SAMPLES + 10 {
        let started = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        if sample >= 10 {
            ns.push(started.elapsed().as_nanos() as f64 / CALLS as f64);
        }
        settle()?;
    }
    Ok(Samples::new(ns))
}

fn measure(gpu: &Device, how: &str, record: impl Fn() -> Result<Option<Recording<Gpu<0>>>>) -> Result<()> {
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut data = compute.alloc_zeroed::<f32>(256)?;
    let settle = || {
        compute.synchronize()?;
        download.synchronize()
    };

    let recording = record()?;
    let fill = per_call(|| compute.fill(&mut data, 1.0), settle)?;
    drop(recording);

    let recording = record()?;
    let mut parked = Some(compute.release(data)?);
    let handoff = per_call(
        || {
            let there = download.acquire(parked.take().expect("put back below"))?;
            let here = compute.acquire(download.release(there)?)?;
            parked = Some(compute.release(here)?);
            Ok(())
        },
        settle,
    )?;
    drop(recording);

    let recording = record()?;
    let stage = || {
        drop(timeline::scope("stage"));
        Ok(())
    };
    let scope = per_call(stage, || Ok(()))?;
    drop(recording);
    println!(
        "{:<12} fill {fill}\n{:12} two handoffs {handoff}\n{:12} scope {scope}",
        how, "", ""
    );
    Ok(())
}

fn main() -> Result<()> {
    let gpu = Device::open_or_simulate()?;
    println!("{}: host time of a call", gpu.properties().name);
    // "off" is measured first and last, so that drift shows.
    measure(&gpu, "off", || Ok(None))?;
    measure(&gpu, "recording", || gpu.record_timeline().map(Some))?;
    measure(&gpu, "by events", || gpu.record_timeline_by_events().map(Some))?;
    measure(&gpu, "off again", || Ok(None))
}
