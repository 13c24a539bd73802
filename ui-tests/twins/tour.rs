// A tour: ranges, handoffs in a queue, sharing, captures, split bundles, pools and scoped devices
// in one program.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Grid1, Handoff, Idle, Live, Stream, StreamTag};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

/// The contents of the buffer, read by the host.
fn read<S: StreamTag<Device = D>, D: Live>(
    gpu: &Device<D>,
    stream: &Stream<S>,
    buffer: &DeviceBuffer<f32, S>,
) -> Result<Vec<f32>, Error> {
    let mut host = stream.adopt(gpu.pinned::<f32>(buffer.len())?)?;
    stream.copy_to_host(buffer, &mut host)?;
    Ok(stream.release(host)?.synchronize()?.to_vec())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let grid = Grid1::covering;

    let mut input = compute.alloc_zeroed::<f32>(8)?;
    compute.fill(&mut input, 1.0)?;
    let mut output = compute.alloc_zeroed::<f32>(8)?;
    scale(&compute, grid(4), &input[..4], &mut output[4..], 2.0)?;

    let mut queue: Vec<Handoff<DeviceBuffer<f32, Idle<D>>>> = vec![compute.release(output)?];
    let output = download.acquire(queue.pop().expect("one is in the queue"))?;
    assert_eq!(
        read(gpu, &download, &output)?,
        [0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0]
    );

    let shared = compute.share(input)?;
    let mut copy = download.alloc_zeroed::<f32>(8)?;
    scale(
        &download,
        grid(8),
        &download.lease(&shared)?.view(),
        &mut copy,
        3.0,
    )?;
    assert_eq!(read(gpu, &download, &copy)?, [3.0; 8]);
    let input = compute.acquire(shared.reclaim().expect("the lease has ended"))?;

    let bundle = (input, compute.alloc_zeroed::<f32>(8)?);
    let mut graph = compute.capture(bundle, |stream, (input, mut output)| {
        let (fork, same) = (stream.fork::<Download<D>>()?, stream.fork::<Compute<D>>()?);
        scale(stream, grid(8), &input, &mut output, 2.0)?;
        let mut temporary = same.alloc_zeroed::<f32>(8)?;
        scale(&same, grid(8), &output, &mut temporary, 5.0)?;
        let temporary = fork.acquire(stream.release(temporary)?)?;
        stream.lend(&fork, &mut output, |output| {
            scale(&fork, grid(8), &temporary, output, 0.5)
        })?
    })?;
    graph.launch(&compute)?;
    {
        let (mut input, _) = graph.views();
        compute.fill(&mut input, 4.0)?;
    }
    graph.launch(&compute)?;
    let (input, output) = graph.into_inner();
    assert_eq!(read(gpu, &compute, &output)?, [20.0; 8]);

    let (input, output) = compute.release((input, output))?.split();
    let (input, output) = (download.acquire(input)?, compute.acquire(output)?);
    assert_eq!(
        (read(gpu, &download, &input)?, read(gpu, &compute, &output)?),
        (vec![4.0; 8], vec![20.0; 8])
    );

    let pool = gpu.stream_pool(2)?;
    let results: Vec<Handoff<_>> = (0..4)
        .map(|value| {
            pool.with(|stream| {
                let mut buffer = stream.alloc_zeroed::<f32>(8)?;
                stream.fill(&mut buffer, value as f32)?;
                stream.release(buffer)
            })
        })
        .collect::<Result<_, Error>>()?;
    for (handoff, value) in results.into_iter().zip(0..) {
        assert_eq!(
            read(gpu, &compute, &compute.acquire(handoff)?)?,
            [value as f32; 8]
        );
    }
    Ok(())
}
