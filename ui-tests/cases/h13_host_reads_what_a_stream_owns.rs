// H13 (E0277, E0308): the host reads pinned memory that a stream owns, by every method and
// operator.
// Twin: h13_read_before_download_is_done
// Table: pinned memory that a stream owns
#![forbid(unsafe_code)]
use cuda_rt::{PinnedBuffer, Stream, StreamTag};

cuda_rt::streams! {
    Download;
}

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

fn total(values: impl AsRef<[f32]>) -> f32 {
    sum(values.as_ref())
}

struct Frame<S: StreamTag> {
    host: PinnedBuffer<f32, S>,
}

impl<S: StreamTag> Frame<S> {
    fn first(&self) -> Option<&f32> {
        self.host.first()
    }
}

fn methods(host: &PinnedBuffer<f32, Download>) {
    let _ = host.iter().count();
    let _ = host.to_vec();
    let _ = host.last();
    let _ = host.get(0);
    let _ = host.contains(&1.0);
    let _ = host.starts_with(&[1.0]);
    let _ = host.chunks(4).count();
    let _ = host[..4].windows(2).count();
    let _ = host.as_ptr();
    let _ = || host.split_first().is_some();
}

fn operators(host: PinnedBuffer<f32, Download>, other: PinnedBuffer<f32, Download>) {
    let _ = host[0];
    let _ = host == other;
    let _ = host == [1.0, 2.0];
    let _ = *host != [1.0, 2.0];
    let _ = host[..2] == [1.0, 2.0];
    assert_eq!(host, [1.0, 2.0]);
    let _ = [1.0, 2.0] == *host;
    assert_eq!(vec![1.0, 2.0], host);
}

fn loops(stream: &Stream<Download>, host: PinnedBuffer<f32, Download>, values: &[f32]) -> Result<(), cuda_rt::Error> {
    stream.synchronize()?;
    for _ in &host {}
    for _ in &host[..4] {}
    let _ = values.iter().zip(&host);
    for _ in host {}
    Ok(())
}

fn functions(host: &PinnedBuffer<f32, Download>) {
    sum(host); // Why not: a mismatch of types has no note of this project.
    sum(&host[..4]); // Why not: a mismatch of types has no note of this project.
    total(host);
    println!("{host:?}"); // compiles, and prints the address and the length
}

fn main() {}
