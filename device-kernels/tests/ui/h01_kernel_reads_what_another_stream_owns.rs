use cuda_rt::{Device, Grid1};

cuda_rt::streams! { Compute; Upload; }

fn main() -> cuda_rt::Result<()> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let input = upload.alloc_zeroed::<f32>(8)?;
    let mut output = compute.alloc_zeroed::<f32>(8)?;
    device_kernels::scale(&compute, Grid1::covering(8), &input, &mut output, 2.0)
}
