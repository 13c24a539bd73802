// H23 (E0521): a buffer of one stream that is known at run time is written on another one.
// Twin: h23_two_pooled_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{AnyStream, Device, Error};

fn mixed(gpu: &Device, one: &AnyStream, two: &AnyStream) -> Result<(), Error> {
    one.run_on(gpu, |one| {
        let mut frame = one.alloc_zeroed::<f32>(1024)?;
        two.run_on(gpu, |two| two.fill(&mut frame, 1.0))?
    })?
}

fn main() {}
