// H12 (E0200): a type of the program's own poses as a device, and as the device of another tag.
// Twin: h12_swap_owners
use cuda_rt::{DeviceTag, Gpu, Live, SameAs};

struct Mine;

impl DeviceTag for Mine {}
impl Live for Mine {}
impl SameAs<Mine> for Gpu<0> {}

fn main() {}
