// H25 (lifetime): a graph that a stream keeps is lent to a closure, and its views leave it.
// Twin: h25_host_views_leave_a_graph
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, KeptGraph};

fn views(stream: &AnyStream, mut kept: KeptGraph<DeviceBuffer<f32, Idle<AnyDevice>>>) -> Result<(), Error> {
    stream.run(|s| {
        let mut view = s.with_graph(&mut kept, |graph| graph.views())?;
        kept.launch()?;
        s.fill(&mut view, 1.0)
    })
}

fn main() {}
