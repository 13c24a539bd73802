// H13 (E0277): the host reads pinned memory that a stream keeps, and waits for nothing.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, Error, Idle, Kept, PinnedBuffer};

fn read(kept: Kept<PinnedBuffer<f32, Idle<AnyDevice>>>) -> Result<(), Error> {
    println!("{}", kept[0]);
    println!("{:?}", kept.as_slice());
    Ok(())
}

fn main() {}
