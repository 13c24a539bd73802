// H17 (E0521): a sink that keeps what it reads, for a thread that writes it to disk when the next
// download may have overwritten it.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Compute; Download; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let mut to_write: Vec<&[f32]> = Vec::new();
    let _ = Pipeline::new(&gpu, 2)
        .generate::<Compute, f32, _>(4, 0..9, |_, _, output| Ok(output.len()))
        .download::<Download>()
        .sink(|_, data| {
            to_write.push(data);
            Ok(())
        });
}
