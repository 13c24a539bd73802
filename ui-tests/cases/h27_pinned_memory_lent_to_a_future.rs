// H27 (E0277): a future that may be dropped or leaked half-way downloads to memory that it only borrows.
// Twin: h27_read_inside_a_future
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

async fn fetch(
    download: &Stream<Download>,
    frame: &DeviceBuffer<f32, Download>,
    host: &mut PinnedBuffer<f32>,
) -> Result<(), Error> {
    let mut host = download.adopt(host)?;
    download.copy_to_host(frame, &mut host)?;
    download.release(host)?.await?;
    Ok(())
}

fn main() {}
