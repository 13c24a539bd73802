// H30 (E0599): a kernel stage where the items are still on the host.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Compute; Download; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let _ = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |_, pinned: &mut [f32]| Ok(pinned.len()))
        .stage::<Compute>(|stream, _, input, output| stream.copy(input, output));
}
