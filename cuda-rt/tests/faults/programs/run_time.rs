//! Streams that are known at run time.

use cuda_rt::{Device, Error, Live, Priority, Result};

use super::{LEN, Streams};

/// Streams that are known at run time: what they keep, their loans, their graphs, and their reuse.
pub(super) fn program<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let [one, two] = ["one", "two"].map(|name| gpu.create_stream(name, Priority::Low));
    let (one, two) = (one?, two?);
    let handoff = streams.compute.release(streams.uploaded(gpu, 70)?)?;
    let mut kept = one.run_on(gpu, |s| Ok::<_, Error>(s.keep(s.acquire(handoff)?)))??;
    let copy = two.run(|s| {
        let mut copy = s.alloc_zeroed(LEN)?;
        s.by_ref_ordered(&kept, |view| s.copy(&view, &mut copy))??;
        s.view_ordered(&mut kept, |mut view| s.fill(&mut view, 71))??;
        Ok::<_, Error>(s.keep(copy))
    })?;
    // A refused bundle is still with its stream: the second call takes it over.
    let buffer = streams
        .compute
        .open_ordered(kept)
        .or_else(|refused| streams.compute.open_ordered(refused.value))?;
    streams.check(gpu, buffer, 71)?;
    let mut host = one.run(|s| {
        let copy = s.open_ordered(copy)?;
        let host = s.init_host_from(s.adopt(s.device().pinned_uninit(LEN)?)?, &copy)?;
        Ok::<_, Error>(s.keep(host))
    })?;
    host.host(|view| assert_eq!(view.as_slice(), [70; LEN]))?;
    drop((one, host));
    let three = gpu.create_stream("three", Priority::Low)?;
    let mut graph = three.run(|s| {
        let memory = (s.alloc_zeroed(LEN)?, s.adopt(s.device().pinned(LEN)?)?);
        let graph = s.capture(memory, |s, (mut data, mut host)| {
            s.fill(&mut data, 72_u32)?;
            s.copy_to_host(&data, &mut host)
        })?;
        Ok::<_, Error>(s.keep_graph(graph))
    })?;
    graph.launch()?;
    three.run(|s| s.with_graph(&mut graph, |graph| graph.launch(s)))??;
    graph.host(|(_, view)| assert_eq!(view.as_slice(), [72; LEN]))?;
    graph.launch()?;
    drop(graph.into_kept());
    Ok(())
}
