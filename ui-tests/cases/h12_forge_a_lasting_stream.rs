// H12 (E0117, E0200): a stream that its owner destroys poses as a stream that keeps bundles.
// Twin: h12_swap_owners
use cuda_rt::interop::Adopted;
use cuda_rt::Lasting;

impl Lasting for Adopted<'_> {}

fn main() {}
