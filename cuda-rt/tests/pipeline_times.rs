//! Test of a pipeline's modelled times, which are the same in each run. A recording also has the
//! stages of all other pipelines of the process, so this test has its own process.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::pipeline::Pipeline;
use cuda_rt::simulator::SimConfig;
use cuda_rt::timeline::Timeline;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Download;
}

/// The timeline of six items. The host takes longer for an item than the device.
fn run() -> Timeline {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let recording = gpu.record_timeline().unwrap();
        Pipeline::new(&gpu, 2)
            .source(1 << 16, 0..6_u32, |_, pinned: &mut [f32]| {
                simulator.spend_host_ns(80_000);
                Ok(pinned.len())
            })
            .upload::<Upload<_>>()
            .stage::<Compute<_>>(|stream, _, input, output| stream.copy(input, output))
            .download::<Download<_>>()
            .sink(|_, _| {
                simulator.spend_host_ns(80_000);
                Ok(())
            })
            .run()
            .unwrap();
        recording.finish().unwrap()
    })
    .unwrap()
}

#[test]
fn modelled_times_are_the_same_in_each_run() {
    let first = run();
    for _ in 0..100 {
        let again = run();
        let differs = first.spans().iter().zip(again.spans()).find(|(a, b)| a != b);
        assert_eq!(differs, None);
        assert_eq!(again, first);
    }
}
