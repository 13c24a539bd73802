// H12 (E0119): one type is declared as two streams.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::Gpu;

type Download<D = Gpu<0>> = Compute<D>;

cuda_rt::streams! {
    Compute;
    #[cfg(any())]
    Download;
}

fn main() {}
