// H06 (E0509): a destructor of the program's own would see buffers that are pending.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, PinnedBuffer, Place, Bundle};

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    host: PinnedBuffer<u8, P>,
}

impl<P: Place> Drop for Frame<P> {
    fn drop(&mut self) {
        println!("{}", self.host.len());
    }
}

fn main() {}
