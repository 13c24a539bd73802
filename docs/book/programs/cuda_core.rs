//! The program of the chapter "Coming from", with NVIDIA's cuda-core 0.5. `cargo xtask coexist
//! cuda-core` compiles it. It takes the PTX of `scale.cu`: `nvcc -ptx scale.cu`.

use cuda_core::{Context, DeviceBuffer, DriverError, PinnedHostBuffer, launch_kernel_on_stream};

pub fn main() -> Result<(), DriverError> {
    let context = Context::new(0)?;
    let (compute, download) = (context.new_stream()?, context.new_stream()?);
    let module = context.load_module_from_file("scale.ptx")?;
    let scale = module.load_function("scale")?;

    let x = DeviceBuffer::from_host(&compute, &[1.0_f32; 1024])?;
    let y = DeviceBuffer::<f32>::zeroed(&compute, 1024)?;
    let (mut from, mut to) = (x.cu_deviceptr(), y.cu_deviceptr());
    let (mut factor, mut n) = (2.0_f32, 1024_u32);
    let mut parameters = [
        (&raw mut from).cast(),
        (&raw mut to).cast(),
        (&raw mut factor).cast(),
        (&raw mut n).cast(),
    ];
    // SAFETY: the kernel takes these parameters, and uses 1024 elements of each buffer.
    unsafe { launch_kernel_on_stream(&scale, (4, 1, 1), (256, 1, 1), 0, &compute, &mut parameters) }?;
    compute.synchronize()?; // the host waits for the kernel

    let mut host = PinnedHostBuffer::<f32>::zeroed(&context, 1024)?;
    // SAFETY: the next line waits for the copy.
    unsafe { y.copy_to_pinned_host_async(&download, &mut host) }?;
    download.synchronize()?; // or `host` is read too early
    println!("{}", host.as_slice()[0]);
    Ok(())
}
