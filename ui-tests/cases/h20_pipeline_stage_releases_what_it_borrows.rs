// H20 (E0277): a kernel stage hands its output to another stream, but the pipeline only lends it.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Upload; Compute; Download; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let download = gpu.stream::<Download>().unwrap();
    let _ = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |_, pinned: &mut [f32]| Ok(pinned.len()))
        .upload::<Upload>()
        .stage::<Compute>(|stream, _, input, output| {
            stream.copy(input, output)?;
            download.acquire(stream.release(output)?).map(drop)
        });
}
