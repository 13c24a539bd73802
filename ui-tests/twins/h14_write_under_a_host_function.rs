// H14, mended: the host writes once the function is done, or in a later function of the stream.
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.host_fn(&mut host, |values| values.fill(2.0))?;
    upload.host_fn(&mut host, |values| values[1] += 1.0)?;
    let mut host = upload.release(host)?.synchronize()?;
    host[0] = 1.0;
    assert_eq!(host[..3], [1.0, 3.0, 2.0]);
    Ok(())
}
