// H25 (E0277): what a stream keeps is opened by the stream of a capture.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, Kept};

type Data = Kept<DeviceBuffer<f32, Idle<AnyDevice>>>;

fn captured(stream: &AnyStream, mut kept: [Data; 3], opened: Data) -> Result<(), Error> {
    let [first, second, third] = &mut kept;
    stream.run(|s| {
        let graph = s.capture(s.alloc_zeroed::<f32>(1024)?, |s, mut data| {
            s.copy(&s.by_ref(first)?, &mut data)?;
            s.fill(&mut s.view(second)?, 1.0)?;
            s.by_ref_ordered(third, |view| s.copy(&view, &mut data))??;
            drop(s.open(opened)?);
            drop(s.keep(s.alloc_zeroed::<f32>(64)?));
            Ok(())
        })?;
        drop(graph);
        Ok(())
    })
}

fn main() {}
