// H25 (E0277): the host reads views inside a capture, and a capture uses memory of outside.
// Twin: h25_buffer_leaves_a_capture
// Table: inside a capture
#![forbid(unsafe_code)]
use cuda_rt::{Constant, DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Compute;
}

fn captured(
    compute: &Stream<Compute>,
    bundle: (DeviceBuffer<f32, Compute>, PinnedBuffer<f32, Compute>),
    outside: &mut DeviceBuffer<f32, Compute>,
    constant: &Constant<DeviceBuffer<f32>, Compute>,
) -> Result<(), Error> {
    let _ = compute.capture(bundle, |stream, (mut data, mut host)| {
        let _ = host[0];
        let _ = host.iter().count();
        host.fill(1.0);
        let _ = host == [1.0, 2.0];
        for _ in &host {}
        let _ = data.iter().count();
        let _ = data == [1.0, 2.0];
        stream.copy(outside, &mut data)?;
        stream.copy(&data, outside)?;
        stream.copy(&constant.view(), &mut data)?;
        stream.synchronize()?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
