// H14 (E0277, E0308): the host writes pinned memory that a stream owns, by every method and
// operator.
// Twin: h14_write_during_upload
// Table: pinned memory that a stream owns, written
#![forbid(unsafe_code)]
use cuda_rt::{PinnedBuffer, StreamTag};

cuda_rt::streams! {
    Upload;
}

fn clear(values: &mut [f32]) {
    values.fill(0.0);
}

struct Frame<S: StreamTag> {
    host: PinnedBuffer<f32, S>,
}

impl<S: StreamTag> Frame<S> {
    fn clear(&mut self) {
        self.host.fill(0.0);
    }
}

fn methods(host: &mut PinnedBuffer<f32, Upload>) {
    host.iter_mut().for_each(|value| *value = 1.0);
    host.fill(1.0);
    host.fill_with(|| 1.0);
    host.swap(0, 1);
    host.reverse();
    host.copy_from_slice(&[1.0, 2.0]);
    host.copy_within(1.., 0);
    host.sort_unstable_by(f32::total_cmp);
    host.chunks_mut(2).for_each(|chunk| chunk[0] = 1.0);
    let _ = host.get_mut(0);
    let _ = host[1..].first_mut();
    let _ = move || host.rotate_left(1);
}

fn operators(host: &mut PinnedBuffer<f32, Upload>) {
    host[0] = 1.0;
    for value in &mut *host {
        *value = 1.0;
    }
    clear(host); // Why not: a mismatch of types has no note of this project.
}

fn main() {}
