// H14 (E0277): a struct writes the next item where its stream still uploads the last from.
// Twin: h14_write_during_upload
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Upload;
}

struct Feeder {
    upload: Stream<Upload>,
    host: PinnedBuffer<u8, Upload>,
}

impl Feeder {
    fn feed(&mut self, frame: &mut DeviceBuffer<u8, Upload>) -> Result<(), Error> {
        self.upload.copy_to_device(&self.host, frame)?;
        self.host[0] += 1;
        Ok(())
    }
}

fn main() {}
