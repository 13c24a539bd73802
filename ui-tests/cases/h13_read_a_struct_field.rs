// H13 (E0277): a struct keeps what its stream downloads to, and reads it at once.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

struct Viewer {
    download: Stream<Download>,
    host: PinnedBuffer<u8, Download>,
}

impl Viewer {
    fn show(&mut self, frame: &DeviceBuffer<u8, Download>) -> Result<u8, Error> {
        self.download.copy_to_host(frame, &mut self.host)?;
        Ok(self.host[0])
    }
}

fn main() {}
