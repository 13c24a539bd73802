// H23 (E0277): a stream that its owner may destroy keeps a buffer.
// Twin: h42_foreign_call_without_unsafe
use cuda_rt::driver::RawStream;
use cuda_rt::{Device, Error};

fn keep(gpu: &Device, raw: RawStream) -> Result<(), Error> {
    // SAFETY: none: this does not compile.
    let kept = unsafe {
        gpu.adopt_stream(raw, |stream| Ok::<_, Error>(stream.keep(stream.alloc_zeroed::<f32>(64)?)))
    }?;
    drop(kept);
    Ok(())
}

fn main() {}
