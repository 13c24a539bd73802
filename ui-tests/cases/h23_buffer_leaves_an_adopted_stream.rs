// H23 (lifetime): a buffer of a stream that its owner destroys leaves the closure that the stream
// was adopted for.
// Twin: h42_foreign_call_without_unsafe
use cuda_rt::driver::RawStream;
use cuda_rt::{Device, Error};

fn borrow(gpu: &Device, raw: RawStream) -> Result<(), Error> {
    // SAFETY: none: this does not compile.
    let kept = unsafe { gpu.adopt_stream(raw, |stream| stream.alloc_zeroed::<f32>(64)) }?;
    drop(kept);
    Ok(())
}

fn main() {}
