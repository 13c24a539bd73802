use cuda_rt::{Device, Grid1};

cuda_rt::streams! { Compute; }

fn main() -> cuda_rt::Result<()> {
    let stream = Device::open_or_simulate()?.stream::<Compute>()?;
    let mut frame = stream.alloc_zeroed::<f32>(8)?;
    device_kernels::scale(&stream, Grid1::covering(8), &frame, &mut frame, 2.0)
}
