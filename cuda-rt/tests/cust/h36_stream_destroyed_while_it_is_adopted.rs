use cuda_rt::interop::cust::cust::stream::Stream;
use cuda_rt::{Device, Error};

fn destroy(gpu: &Device, theirs: Stream) -> Result<(), Error> {
    gpu.adopt_cust_stream(&theirs, |ours| {
        // What is enqueued next would be on a stream that is no more.
        drop(theirs);
        ours.alloc_zeroed::<f32>(16).map(drop)
    })
}

fn main() {}
