// H42 (E0133): any pointer is taken for a tensor of another library, whose deleter is called.
// Twin: h01_tensors_of_another_library
#![forbid(unsafe_code)]
use cuda_rt::interop::dlpack::DLManagedTensorVersioned;
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let managed = std::ptr::dangling_mut::<DLManagedTensorVersioned>();
    let tensor = compute.from_dlpack::<f32>(managed)?;
    drop(tensor);
    Ok(())
}
