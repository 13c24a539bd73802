// H16 (E0505): a struct keeps a slice of pinned memory that a stream then has.
// Twin: h16_drop_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

struct Line<'a> {
    samples: &'a [f32],
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = gpu.pinned::<f32>(1024)?;
    let line = Line { samples: &host[..64] };
    let host = download.adopt(host)?;
    println!("{}", line.samples[0]);
    drop(host);
    Ok(())
}
