// H12 (E0200): a program declares that `Download` may read and write what belongs to `Compute`.
// Twin: h12_swap_owners
use cuda_rt::{ReadBy, WriteBy};

cuda_rt::streams! {
    Compute;
    Download;
}

impl ReadBy<Download> for Compute {}
impl WriteBy<Download> for Compute {}

fn main() {}
