// H12 (E0200): a reference poses as an element of device memory.
// Twin: h40_zeroed_references
use cuda_rt::Element;

#[derive(Clone, Copy)]
struct Handle(&'static str);

impl Element for Handle {}

fn main() {}
