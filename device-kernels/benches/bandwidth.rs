//! Measures how near elementwise kernels come to the memory's bandwidth: `cargo bench -p
//! cuda-handoff-kernels --bench bandwidth`.
//!
//! One run, on the first GPU, measures kernels with one and with four elements in each thread, and
//! a copy within the device by the driver.
#![forbid(unsafe_code)]

use cuda_rt::timeline::bench::Bench;
use cuda_rt::{Device, Grid1, Result, Stream};
use device_kernels::{add, add4, process, process4, saxpy, saxpy4, scale, scale4};

cuda_rt::streams! { Compute; }

/// Elements of a buffer: 256 MiB, much more than the caches hold.
const LEN: usize = 1 << 26;

fn main() -> Result<()> {
    let gpu = Device::open()?;
    let compute = gpu.stream::<Compute>()?;
    let mut source = compute.alloc_zeroed::<f32>(LEN)?;
    compute.fill(&mut source, 1.0)?;
    let other = compute.alloc_zeroed::<f32>(LEN)?;
    let mut target = compute.alloc_zeroed::<f32>(LEN)?;
    let (one, four) = (Grid1::covering(LEN), Grid1::covering(LEN.div_ceil(4)));

    println!("{}, {LEN} elements of 4 bytes", gpu.properties().name);
    println!("{:20} {:>10} {:>9} {:>8}", "", "µs", "GB/s", "to copy");
    let mut copy_gb_per_s = None;
    let mut line = |name: &str, buffers: usize, body: &mut dyn FnMut(&Stream<Compute>) -> Result<()>| {
        let samples = Bench::new().samples(51).repeats(8).run(&compute, body)?;
        let gb_per_s = (buffers * LEN * size_of::<f32>()) as f64 / samples.median_ns();
        let copy = *copy_gb_per_s.get_or_insert(gb_per_s);
        println!(
            "{name:20} {:10.1} {gb_per_s:9.0} {:8.3}",
            samples.median_ns() / 1e3,
            gb_per_s / copy
        );
        Ok::<_, cuda_rt::Error>(())
    };
    line("copy", 2, &mut |stream| stream.copy(&source, &mut target))?;
    line("scale", 2, &mut |stream| {
        scale(stream, one, &source, &mut target, 2.0)
    })?;
    line("scale4", 2, &mut |stream| {
        scale4(stream, four, &source, &mut target, 2.0)
    })?;
    line("process", 2, &mut |stream| {
        process(stream, one, &source, &mut target, 1.0, 0.5)
    })?;
    line("process4", 2, &mut |stream| {
        process4(stream, four, &source, &mut target, 1.0, 0.5)
    })?;
    line("add", 3, &mut |stream| {
        add(stream, one, &source, &other, &mut target)
    })?;
    line("add4", 3, &mut |stream| {
        add4(stream, four, &source, &other, &mut target)
    })?;
    line("saxpy", 3, &mut |stream| {
        saxpy(stream, one, 0.5, &source, &mut target)
    })?;
    line("saxpy4", 3, &mut |stream| {
        saxpy4(stream, four, 0.5, &source, &mut target)
    })
}
