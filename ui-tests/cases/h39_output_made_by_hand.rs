// H39 (E0200, lint): a program's own type claims that its memory is written after a launch.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error, Grid1, KernelOutput};
use device_kernels::add;

cuda_rt::streams! {
    Compute;
}

struct Nothing;

impl KernelOutput<Compute, f32> for Nothing {
    type Written = ();
    type Error = Error;

    fn memory(&self) -> [u64; 2] {
        [0, 0]
    }

    unsafe fn written(self) {}

    fn refused(self, error: Error) -> Error {
        error
    }
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let ones: DeviceBuffer<f32, Compute> = compute.alloc_from_slice(&[1.0; 64])?;
    add(&compute, Grid1::covering(64), &ones, &ones, Nothing)
}
