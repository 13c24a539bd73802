// H12 (E0038): a place of which anything is read by `Compute`: `dyn ReadBy<Compute>` would
// implement `ReadBy<Compute>`.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::ReadBy;

cuda_rt::streams! {
    Compute;
}

fn reads(_: &dyn ReadBy<Compute>) {}

fn main() {}
