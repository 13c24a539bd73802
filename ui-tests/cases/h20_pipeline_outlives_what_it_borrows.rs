// H20 (E0597): what the stages borrow must outlive the pipeline.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::pipeline::Pipeline;

cuda_rt::streams! { Compute; }

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let ready = {
        let weight = 3;
        Pipeline::new(&gpu, 2)
            .generate::<Compute, u32, _>(4, 0..9, |stream, _, output| {
                stream.fill(output, *&weight)?;
                Ok(output.len())
            })
            .consume::<Compute>(|_, _, _| Ok(()))
    };
    ready.run().unwrap();
}
