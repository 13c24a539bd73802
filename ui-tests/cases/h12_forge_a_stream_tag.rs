// H12 (E0200): a type of the program's own poses as a stream, whose identity nothing proves.
// Twin: h12_swap_owners
use cuda_rt::{Gpu, NamedStream, Place, Priority, StreamTag};

struct Compute;

impl Place for Compute {
    type Device = Gpu<0>;
}
impl StreamTag for Compute {}
impl NamedStream for Compute {
    const NAME: &'static str = "Compute";
    const PRIORITY: Priority = Priority::Low;
    type Key = Compute;
}

fn main() {}
