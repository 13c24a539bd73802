// H16 (E0599): a pinned block goes back to its pool while a copy into it is pending.
// Twin: h16_drop_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Handoffs};

cuda_rt::streams! {
    Download;
}

fn take<H: Handoffs>(handoff: H) -> H::Carried {
    handoff.into_bundle().0
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u32>(1024)?;
    let mut host = download.adopt(gpu.pinned::<u32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    drop(take((download.release(host)?,)));
    let next = gpu.pinned::<u32>(1024)?;
    println!("{}", next[0]);
    Ok(())
}
