// H18 (E0308): a job says that its memory is ready, and is given what is in flight.
// Twin: h18_in_flight_buffer_sent_as_ready
#![forbid(unsafe_code)]
use cuda_rt::{Error, PinnedBuffer, Stream};

cuda_rt::streams! {
    Download;
}

struct Job {
    ready: PinnedBuffer<u8>,
}

fn job(download: &Stream<Download>, host: PinnedBuffer<u8, Download>) -> Result<Job, Error> {
    let ready = download.release(host)?;
    Ok(Job { ready })
}

fn main() {}
