// H24 (lifetime): a view for writing takes elements that its owner does not: `&mut [T]` would not
// either.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{DeviceViewMut, PinnedViewMut};

fn on_the_device<'v, 'long: 'short, 'short, S>(
    view: DeviceViewMut<'v, &'long u8, S>,
) -> DeviceViewMut<'v, &'short u8, S> {
    view
}

fn on_the_host<'v, 'long: 'short, 'short, S>(
    view: PinnedViewMut<'v, &'long u8, S>,
) -> PinnedViewMut<'v, &'short u8, S> {
    view
}

fn main() {}
