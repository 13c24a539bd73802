// H12 (E0117): the tag is not declared: its name stands for a type of ours, whose streams would be two.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::Gpu;

type Compute<D = Gpu<0>> = cuda_rt::Idle<D>;

cuda_rt::streams! {
    #[cfg(any())]
    Compute;
}

fn main() {}
