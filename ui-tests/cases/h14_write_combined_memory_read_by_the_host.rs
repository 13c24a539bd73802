// H14 (E0277): the host reads write-combined memory, which it only writes, and takes a slice of it.
// Twin: h14_write_combined_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let mut frame = gpu.write_combined::<f32>(1024)?;
    println!("{}", frame.iter().sum::<f32>());
    println!("{:?}", frame.as_slice());
    frame.as_mut_slice()[0] = 1.0;
    Ok(())
}
