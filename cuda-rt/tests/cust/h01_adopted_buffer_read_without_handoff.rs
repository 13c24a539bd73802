use cuda_rt::interop::cust::cust::{memory, stream};
use cuda_rt::{Device, Error, Stream};

cuda_rt::streams! { Compute; }

fn download(
    gpu: &Device,
    compute: &Stream<Compute>,
    theirs: &stream::Stream,
    buffer: memory::DeviceBuffer<f32>,
) -> Result<(), Error> {
    let host = gpu.pinned::<f32>(16)?;
    gpu.adopt_cust_stream(theirs, |ours| {
        let data = unsafe { ours.adopt_cust_buffer(buffer) }?;
        let mut host = compute.adopt(host)?;
        // cust's stream may still be writing it.
        compute.copy_to_host(&data, &mut host)
    })
}

fn main() {}
