// H05 (E0277): a stream acquires a buffer that was never released, and uses the result.
// Twin: h05_acquire_twice
// Table: a buffer that was never released, acquired and used
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Stream};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn consume(
    compute: &Stream<Compute>,
    data: DeviceBuffer<f32, Upload>,
    out: &mut DeviceBuffer<f32, Compute>,
) -> Result<(), Error> {
    let data = compute.acquire( // Why not: the errors about `[()]` follow from the error in the next line, and end with it.
        data,
    )?; // Why not: as above.
    compute.copy(&data, out)
}

fn main() {}
