//! The programs of NVIDIA's samples `simpleCallbacks` and `simpleCudaGraphs`, in safe code.

use std::sync::mpsc;

use cuda_rt::{Device, Grid1, Live, Result};
use device_kernels::scale;

use super::{Compute, Download, LEN, patient};
use crate::devices::for_each_device;

/// Several streams; on each an upload, a kernel, a download, and a host function that checks the
/// result and counts the workloads that are done.
fn simple_callbacks<D: Live>(gpu: &Device<D>) -> Result<()> {
    const WORKLOADS: usize = 8;
    let pool = gpu.stream_pool(4)?;
    let (sender, done) = mpsc::channel();
    for workload in 0..WORKLOADS {
        let sender = sender.clone();
        pool.with(|stream| -> Result<()> {
            let source = stream.adopt(gpu.pinned_from(&[workload as f32; LEN])?)?;
            let data = stream.init_from_host(stream.alloc_uninit(LEN)?, &source)?;
            let mut out = stream.alloc_zeroed::<f32>(LEN)?;
            scale(stream, Grid1::covering(LEN), &data, &mut out, 3.0)?;
            let mut host = stream.adopt(gpu.pinned::<f32>(LEN)?)?;
            stream.copy_to_host(&out, &mut host)?;
            stream.host_fn(&host, move |values| {
                let correct = values.iter().all(|value| *value == workload as f32 * 3.0);
                let _ = sender.send((workload, correct));
            })
        })?;
    }
    drop(sender);
    (0..4).try_for_each(|_| pool.with(|stream| stream.record_event()?.synchronize()))?;
    let mut ended: Vec<_> = (0..WORKLOADS).map(|_| patient(&done)).collect();
    ended.sort_unstable();
    assert_eq!(
        ended,
        (0..WORKLOADS)
            .map(|workload| (workload, true))
            .collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn simple_callbacks_runs_a_function_behind_each_stream() {
    for_each_device(|gpu| simple_callbacks(gpu).unwrap());
}

/// A graph with an upload, a kernel, a download, and a host function that takes the result,
/// launched several times with an input that a host function of the graph makes.
fn simple_cuda_graphs<D: Live>(gpu: &Device<D>) -> Result<()> {
    const LAUNCHES: u32 = 5;
    let compute = gpu.stream::<Compute<D>>()?;
    let bundle = (
        compute.adopt(gpu.pinned::<f32>(LEN)?)?,
        compute.alloc_zeroed::<f32>(LEN)?,
        compute.alloc_zeroed::<f32>(LEN)?,
        compute.adopt(gpu.pinned::<f32>(LEN)?)?,
    );
    let (sender, results) = mpsc::channel();
    let mut graph = compute.capture(bundle, move |stream, (mut input, mut data, mut out, mut host)| {
        let fork = stream.fork::<Download<D>>()?;
        let mut launch = 0_u8;
        stream.host_fn(&mut input, move |values| {
            launch += 1;
            values.fill(f32::from(launch));
        })?;
        stream.copy_to_device(&input, &mut data)?;
        scale(stream, Grid1::covering(LEN), &data, &mut out, 2.0)?;
        stream.lend(&fork, &mut out, |out| fork.fill(&mut out[..1], -1.0))??;
        stream.copy_to_host(&out, &mut host)?;
        stream.host_fn(&mut host, move |values| {
            let _ = sender.send(values.iter().sum::<f32>());
        })
    })?;
    for _ in 0..LAUNCHES {
        graph.launch(&compute)?;
    }
    compute.synchronize()?;
    for launch in 1..=LAUNCHES {
        let expected = (LEN - 1) as f32 * 2.0 * launch as f32 - 1.0;
        assert_eq!(patient(&results), expected, "launch {launch}");
    }
    Ok(())
}

#[test]
fn simple_cuda_graphs_runs_its_functions_at_each_launch() {
    for_each_device(|gpu| simple_cuda_graphs(gpu).unwrap());
}
