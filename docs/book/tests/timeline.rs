//! The chart in the first chapter is what the chapter's program prints on the simulated device.
#![forbid(unsafe_code)]

use std::thread;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1, Live, Result};
use device_kernels::process;

cuda_rt::streams! {
    Upload;
    Compute;
    Download;
}

const CHAPTER: &str = include_str!("../src/ten-minutes.md");
const LEN: usize = 1 << 20;

/// The chart of the chapter's program.
fn chart<D: Live>(gpu: &Device<D>) -> Result<String> {
    let upload = gpu.stream::<Upload<D>>()?;
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let recording = gpu.record_timeline()?;
    let mut results = Vec::new();
    for item in 0..4 {
        let source = upload.adopt(gpu.pinned_from(&vec![item as f32; LEN])?)?;
        let input = upload.init_from_host(upload.alloc_uninit(LEN)?, &source)?;
        let input = compute.acquire(upload.release(input)?)?;
        let mut output = compute.alloc_zeroed(LEN)?;
        process(&compute, Grid1::covering(LEN), &input, &mut output, 1.0, 1.0)?;
        let output = download.acquire(compute.release(output)?)?;
        let mut host = download.adopt(gpu.pinned(LEN)?)?;
        download.copy_to_host(&output, &mut host)?;
        results.push(download.release(host)?);
    }
    for result in results {
        result.synchronize()?;
    }
    Ok(recording.finish()?.gantt(80).to_string())
}

#[test]
fn the_chart_is_the_programs() {
    // The chart names the thread.
    let main = thread::Builder::new().name("main".to_owned()).spawn(|| {
        let chart = Device::simulated(SimConfig::default(), |gpu| chart(&gpu));
        chart.expect("the device opens").expect("the program runs")
    });
    let chart = main
        .expect("the thread starts")
        .join()
        .expect("it does not panic");
    let (_, shown) = CHAPTER
        .split_once("```text\nUpload ")
        .expect("the chapter shows a chart");
    let (shown, _) = shown.split_once("```").expect("the block ends");
    assert_eq!(format!("Upload {shown}").trim_end(), chart.trim_end());
}
