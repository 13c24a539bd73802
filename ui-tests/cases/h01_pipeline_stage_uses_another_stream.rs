// H01 (E0277): a kernel stage that gives its work to another stage's stream.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Upload; Compute; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let upload = gpu.stream::<Upload>().unwrap();
    let _ = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |_, pinned: &mut [f32]| Ok(pinned.len()))
        .upload::<Upload>()
        .stage::<Compute>(|_, _, input, output| upload.copy(input, output));
}
