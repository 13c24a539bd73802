// H13 (E0308): a pending bundle is taken out of its handoff by a method of the trait that
// `Handoffs` asks for.
// Twin: h13_read_before_download_is_done
// Through a bound: cuda_rt_runtime::order::join::sealed::Parts
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Handoffs};

cuda_rt::streams! {
    Download;
}

fn take<H: Handoffs>(handoff: H) -> H::Carried {
    handoff.joined()
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u32>(8)?;
    let mut host = download.adopt(gpu.pinned::<u32>(8)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let host = take(download.release(host)?);
    println!("{}", host[0]);
    Ok(())
}
