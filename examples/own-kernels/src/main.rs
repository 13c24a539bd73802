//! A program with a kernel of its own. Copy the directory, see README.md.
#![forbid(unsafe_code)]

use cuda_rt::{Device, Grid1};

cuda_rt::streams! {
    /// Uploads, runs kernels, downloads. With more streams the copies overlap the kernels.
    Main;
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const N: usize = 1 << 20;
    let gpu = Device::open_or_simulate()?;
    println!("{}", gpu.properties().name);
    let main = gpu.stream::<Main>()?;

    // To the device…
    let mut numbers = gpu.pinned::<f32>(N)?;
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = i as f32;
    }
    let numbers = main.adopt(numbers)?;
    let (mut x, mut sum) = (main.alloc_zeroed::<f32>(N)?, main.alloc_zeroed::<f32>(N)?);
    main.copy_to_device(&numbers, &mut x)?;

    // …your kernel: a typed call, on a stream, over a grid…
    kernels::saxpy(&main, Grid1::covering(N), 2.0, &x, &x, &mut sum)?;

    // …and back. The host waits here, and nowhere else.
    let mut numbers = numbers;
    main.copy_to_host(&sum, &mut numbers)?;
    let numbers = main.release(numbers)?.synchronize()?;

    let right = numbers.iter().enumerate().filter(|(i, sum)| **sum == 3.0 * *i as f32);
    println!("{} of {N} sums right", right.count());
    Ok(())
}
