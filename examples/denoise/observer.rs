//! [`Observer`]: what follows a run while it goes on.

use cuda_rt::pipeline::Worked;

/// Indices of stages in [`Worked`].
pub const KERNEL: usize = 2;
/// The download's index.
pub const DOWNLOAD: usize = 3;

/// Follows a run: its frames before and after the filter, and the times of its stages. The calls
/// come from the pipeline's threads, which wait for them.
pub trait Observer: Sync {
    /// Frame `index` was read.
    fn read(&self, _index: u64, _luma: &[u8], _chroma: &[u8]) {}

    /// Frame `index` was denoised and written, as the `frames`th: if several threads write, frames
    /// come in any order.
    fn written(&self, _index: u64, _luma: &[u8], _frames: u64) {}

    /// A stage is done with a frame, and its time is known.
    fn worked(&self, _worked: Worked) {}
}

/// Is told of the number of frames written. If several threads write, an earlier number may come
/// after a later one.
impl<F: Fn(u64) + Sync + ?Sized> Observer for F {
    fn written(&self, _index: u64, _luma: &[u8], frames: u64) {
        self(frames);
    }
}

/// Several observers, in order.
#[expect(missing_debug_implementations, reason = "observers are closures too")]
pub struct All<'a>(pub Vec<&'a dyn Observer>);

impl Observer for All<'_> {
    fn read(&self, index: u64, luma: &[u8], chroma: &[u8]) {
        self.0.iter().for_each(|each| each.read(index, luma, chroma));
    }

    fn written(&self, index: u64, luma: &[u8], frames: u64) {
        self.0.iter().for_each(|each| each.written(index, luma, frames));
    }

    fn worked(&self, worked: Worked) {
        self.0.iter().for_each(|each| each.worked(worked));
    }
}
