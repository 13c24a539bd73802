//! A program with its own kernel. README.md says how to copy it.
#![forbid(unsafe_code)]

use cuda_rt::{Device, Grid1};

cuda_rt::streams! {
    /// The stream for uploads, kernels and downloads. With more streams, copies could overlap
    /// kernels.
    Main;
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const N: usize = 1 << 20;
    let gpu = Device::open_or_simulate()?;
    println!("{}", gpu.properties().name);
    let main = gpu.stream::<Main>()?;

    // The host writes the numbers, and the stream copies them to the device.
    let mut numbers = gpu.pinned::<f32>(N)?;
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = i as f32;
    }
    let numbers = main.adopt(numbers)?;
    let (mut x, mut sum) = (main.alloc_zeroed::<f32>(N)?, main.alloc_zeroed::<f32>(N)?);
    main.copy_to_device(&numbers, &mut x)?;

    // A launch is a typed call, with a stream and a grid.
    kernels::saxpy(&main, Grid1::covering(N), 2.0, &x, &x, &mut sum)?;

    // The stream copies the sums back. Only `synchronize` makes the host wait.
    let mut numbers = numbers;
    main.copy_to_host(&sum, &mut numbers)?;
    let numbers = main.release(numbers)?.synchronize()?;

    let right = numbers.iter().enumerate().filter(|(i, sum)| **sum == 3.0 * *i as f32);
    println!("{} of {N} sums right", right.count());
    Ok(())
}
