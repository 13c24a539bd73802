// H09 (E0515): a function ends the lease, and returns a view of what it was of.
// Twin: h09_view_outlives_its_lease
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, Error, Shared, Stream};

cuda_rt::streams! {
    Download;
}

fn read<'a>(
    download: &'a Stream<Download>,
    shared: &'a Shared<DeviceBuffer<f32>>,
) -> Result<DeviceView<'a, f32, Download>, Error> {
    let lease = download.lease(shared)?;
    Ok(lease.view())
}

fn main() {}
