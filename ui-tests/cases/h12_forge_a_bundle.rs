// H12 (E0200): a bundle of the program's own converts its parts as it likes.
// Twin: h06_release_in_generic_function
use cuda_rt::{Gpu, Bundle, StreamTag};

struct Buffers;

impl Bundle for Buffers {
    type Device = Gpu<0>;
    type On<S: StreamTag> = cuda_rt::DeviceBuffer<f32, S>;
    type View<'v, S: StreamTag> = ();
    type Ref<'v, S: StreamTag> = ();

    unsafe fn attach<S: StreamTag>(self, _: cuda_rt::__private::StreamRef) -> Self::On<S> {
        loop {}
    }
    unsafe fn idle_from<S: StreamTag>(_: Self::On<S>) -> Self {
        loop {}
    }
    unsafe fn view<'v, S: StreamTag>(&mut self) {}
    unsafe fn by_ref<'v, S: StreamTag>(&self) {}
    unsafe fn retire(self, _: &mut cuda_rt::__private::Fence) {}
}

fn main() {}
