use cuda_rt::{Device, DeviceCopied};
use rustacuda_derive::DeviceCopy;

cuda_rt::streams! { Compute; }

#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Settings {
    invert: bool,
    gain: f32,
}

fn main() -> cuda_rt::Result<()> {
    let compute = Device::open_or_simulate()?.stream::<Compute>()?;
    // A kernel could leave a 2 in `invert`.
    let _settings = compute.alloc_zeroed::<DeviceCopied<Settings>>(16)?;
    Ok(())
}
