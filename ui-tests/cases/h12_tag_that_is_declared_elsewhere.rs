// H12 (macro): an attribute takes the tag's declaration away, and its name stands for a type of the
// program's choice.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::Gpu;

type Compute<D = Gpu<0>> = cuda_rt::Idle<D>;

cuda_rt::streams! {
    #[cfg(any())]
    Compute;
}

fn main() {}
