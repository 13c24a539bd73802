use cuda_rt::interop::cust::cust::stream;
use cuda_rt::{Device, Error};

fn allocate(gpu: &Device, theirs: stream::Stream) -> Result<(), Error> {
    let buffer = gpu.adopt_cust_stream(&theirs, |ours| ours.alloc_zeroed::<f32>(16))?;
    // It would be freed on a stream that is no more.
    drop(theirs);
    drop(buffer);
    Ok(())
}

fn main() {}
