// H16 (E0382): a function for any stream gives it pinned memory, and writes there.
// Twin: h16_drop_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Error, Live, PinnedBuffer, Stream, StreamTag};

fn give<S: StreamTag>(
    stream: &Stream<S>,
    mut host: PinnedBuffer<f32, cuda_rt::Idle<S::Device>>,
) -> Result<PinnedBuffer<f32, S>, Error>
where
    S::Device: Live,
{
    let given = stream.adopt(host)?;
    host[0] = 1.0;
    Ok(given)
}

fn main() {}
