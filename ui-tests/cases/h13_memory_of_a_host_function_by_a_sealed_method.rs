// H13 (E0133): memory that a stream owns is reached by the method that gives it to a host function.
// Twin: h14_write_under_a_host_function
// Through a bound: cuda_rt_runtime::memory::host_arguments::HostMemory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, HostArguments};

cuda_rt::streams! {
    Download;
}

fn take<'h, A: HostArguments<Download>>(argument: A) -> A::Host<'h> {
    let raw = argument.raw(&mut Vec::new());
    A::host(&raw)
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u32>(8)?;
    let mut host = download.adopt(gpu.pinned::<u32>(8)?)?;
    download.copy_to_host(&frame, &mut host)?;
    println!("{}", take(&host)[0]);
    Ok(())
}
