use cuda_rt::{Device, Grid1};

cuda_rt::streams! { Compute; }

fn main() -> cuda_rt::Result<()> {
    let stream = Device::open_or_simulate()?.stream::<Compute>()?;
    let input = vec![1.0f32; 8];
    let mut output = stream.alloc_zeroed::<f32>(8)?;
    device_kernels::scale(&stream, Grid1::covering(8), &input, &mut output, 2.0)
}
