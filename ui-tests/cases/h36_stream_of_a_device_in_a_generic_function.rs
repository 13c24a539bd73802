// H36 (E0277): a function for any device asks it for a stream of GPU 0.
// Twin: h23_scopes_mixed_by_recursion
// Table: a stream of another device
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
}

fn run<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    gpu.stream::<Compute>()?.synchronize()
}

fn main() {}
