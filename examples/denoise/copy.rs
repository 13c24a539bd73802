//! A copy of the input by several threads, with which a run is compared: what the machine's memory,
//! disk and file system can do without a GPU.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::report::Pass;
use crate::y4m::at_offset::{fill_at, write_all_at};

/// Copies `from` to the empty file `to` with `threads` threads, in pieces of `piece_bytes`: each
/// thread reads a piece at its offset, and writes it there. Returns the time. Memory is allocated
/// and touched before.
///
/// # Errors
/// The first error of a thread. The other threads then take no further piece.
///
/// # Panics
/// If `threads` or `piece_bytes` is 0.
pub fn copy(from: &File, to: &File, threads: usize, piece_bytes: usize) -> io::Result<Duration> {
    assert!(threads > 0 && piece_bytes > 0, "a copy needs threads and memory");
    let len = from.metadata()?.len();
    // Not 0: the system gives memory of zeros its pages at the first write only.
    let mut memory: Vec<_> = (0..threads).map(|_| vec![1_u8; piece_bytes]).collect();
    let next = AtomicU64::new(0);
    let copy_pieces = |piece: &mut [u8]| -> io::Result<()> {
        loop {
            let offset = next.fetch_add(piece_bytes as u64, Ordering::Relaxed);
            if offset >= len {
                return Ok(());
            }
            let wanted = (len - offset).min(piece_bytes as u64) as usize;
            let (mut read, mut written) = (offset, offset);
            let copied = fill_at(from, &mut piece[..wanted], &mut read).and_then(|got| {
                if got < wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                write_all_at(to, &piece[..wanted], &mut written)
            });
            if copied.is_err() {
                next.store(len, Ordering::Relaxed);
                return copied;
            }
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = memory
            .iter_mut()
            .map(|piece| scope.spawn(|| copy_pieces(piece)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect::<io::Result<Vec<()>>>()
    })?;
    Ok(started.elapsed())
}

/// A run beside a copy of its input. The real clock measured both, also on a simulated device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CopyFigures {
    /// As many threads as read and write in the run.
    threads: usize,
    bytes: u64,
    copy_ms: f64,
    run_ms: f64,
    /// Frames of the run, over its time by the real clock.
    run_frames_per_second: Option<f64>,
    /// Frames of the copy: its bytes are those of the run's frames.
    copy_frames_per_second: Option<f64>,
    /// The run's rate over the copy's: 1 if the GPU costs no time at all.
    ratio: Option<f64>,
}

impl CopyFigures {
    /// Compares a pass with the fastest of the copies that were made with as many threads.
    pub fn new(pass: &Pass, copies: impl IntoIterator<Item = Duration>, bytes: u64) -> Self {
        let fastest = copies.into_iter().min().unwrap_or_default();
        let copy_ms = fastest.as_secs_f64() * 1e3;
        let of = |above: f64, below: f64| (below > 0.0 && above > 0.0).then(|| above / below);
        Self {
            threads: pass.readers + pass.writers,
            bytes,
            copy_ms,
            run_ms: pass.elapsed_ms,
            run_frames_per_second: of(pass.frames as f64 * 1e3, pass.elapsed_ms),
            copy_frames_per_second: of(pass.frames as f64 * 1e3, copy_ms),
            ratio: of(copy_ms, pass.elapsed_ms),
        }
    }
}

impl fmt::Display for CopyFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            threads,
            bytes,
            copy_ms,
            run_ms,
            ..
        } = self;
        writeln!(
            f,
            "\nthe input copied by {threads} threads, without a GPU, by the real clock"
        )?;
        let gigabytes = *bytes as f64 / copy_ms.max(1e-6) / 1e6;
        write!(f, "  copy     {copy_ms:10.3} ms")?;
        if let Some(rate) = self.copy_frames_per_second {
            write!(f, "   {rate:.1} frames/s, {gigabytes:.2} GB/s read and written")?;
        }
        write!(f, "\n  run      {run_ms:10.3} ms")?;
        if let (Some(rate), Some(ratio)) = (self.run_frames_per_second, self.ratio) {
            write!(f, "   {rate:.1} frames/s, {ratio:.2} of the copy's rate")?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn a_copy_has_all_bytes_for_any_number_of_threads_and_any_piece() {
        let bytes: Vec<u8> = (0..100_003_u32).map(|byte| (byte * 7 / 3) as u8).collect();
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&bytes).unwrap();
        for (threads, piece) in [(1, 1 << 20), (1, 1000), (3, 1 << 12), (8, 9973)] {
            let mut to = tempfile::tempfile().unwrap();
            copy(&from, &to, threads, piece).unwrap();
            let mut copied = Vec::new();
            to.rewind().unwrap();
            to.read_to_end(&mut copied).unwrap();
            assert!(copied == bytes, "{threads} threads, pieces of {piece} bytes");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_a_thread_is_returned() {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&[7; 10_000]).unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = copy(&from, &full, 3, 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn the_ratio_is_that_of_the_times() {
        let pass = Pass {
            frames: 100,
            readers: 4,
            writers: 4,
            elapsed_ms: 100.0,
            ..Pass::default()
        };
        let copies = [Duration::from_millis(90), Duration::from_millis(80)];
        let figures = CopyFigures::new(&pass, copies, 800_000_000);
        let text = figures.to_string();
        for words in [
            "8 threads",
            "1250.0 frames/s, 10.00 GB/s",
            "1000.0 frames/s, 0.80 of",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let nothing = CopyFigures::new(&Pass::default(), [], 0).to_string();
        assert!(!nothing.contains("NaN") && !nothing.contains("inf"), "{nothing}");
    }
}
