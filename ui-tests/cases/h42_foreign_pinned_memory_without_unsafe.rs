// H42 (E0133): a `Vec` is taken for page-locked memory, and its owner still has it.
// Twin: h42_foreign_memory_given_back
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, PinnedBuffer};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let mut mine = vec![0.0_f32; 64];
    let start = std::ptr::NonNull::from(&mut mine[..]).cast::<f32>();
    let host = PinnedBuffer::from_foreign(&gpu, start, 64, || ());
    drop((host, mine));
    Ok(())
}
