// H13 (E0599): a sink that would read what was not downloaded.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Upload; Compute; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let _ = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |_, pinned: &mut [f32]| Ok(pinned.len()))
        .upload::<Upload>()
        .sink(|_, _| Ok(()));
}
