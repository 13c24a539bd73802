// H02 (E0521): a stage that keeps its input, to read it when the next upload may have overwritten
// it.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::DeviceSlice;
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Upload; Compute; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let mut before: Option<&DeviceSlice<f32, Compute>> = None;
    let _ = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |_, pinned: &mut [f32]| Ok(pinned.len()))
        .upload::<Upload>()
        .stage::<Compute>(|stream, _, input, output| {
            stream.copy(before.unwrap_or(input), output)?;
            before = Some(input);
            Ok(())
        });
}
