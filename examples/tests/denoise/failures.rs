//! Tests of failures: a stage that fails ends the run without a deadlock, and the error names the
//! stage and the frame.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{ends, file_of, overlapped, overlapped_files, stream_420};
use cuda_rt::Device;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig, Simulator};
use cuda_rt_examples::denoise::failure::{Stage, StageError};
use cuda_rt_examples::y4m::FileReader;

const FRAMES: u64 = 9;
/// A clip with frames of 6×4 samples. A frame and its line take a little more than 42 bytes,
/// because some lines have parameters.
fn clip() -> Vec<u8> {
    stream_420(6, 4, FRAMES)
}

/// Runs on a simulated device that is set to fail, and expects an error.
fn failure(buffers: usize, prepare: impl FnOnce(&Simulator) + Send + 'static) -> StageError {
    let run = move |gpu: Device<cuda_rt::Scoped<'_>>| {
        overlapped(&gpu, clip().as_slice(), io::sink(), buffers, prepare, &|_| {})
    };
    ends(|| {
        Device::simulated(SimConfig::default(), run)
            .expect("a device")
            .expect_err("a failure")
    })
}

#[test]
fn the_error_of_a_failing_call_names_stage_and_frame() {
    for (call, stage) in [
        (Call::CopyToDevice, Stage::Upload),
        (Call::Launch, Stage::Kernel),
        (Call::CopyToHost, Stage::Download),
    ] {
        for frame in [0, 4, FRAMES - 1] {
            for buffers in 1..=3 {
                let error = failure(buffers, move |sim| {
                    sim.fail_nth(call, frame + 1, ErrorCode::INVALID_VALUE)
                });
                assert_eq!(
                    (error.stage, error.frame),
                    (stage, frame),
                    "{call:?}, {buffers} buffers: {error}"
                );
                let message = error.to_string();
                assert!(
                    message.starts_with(&format!("{stage} failed: frame {frame}: ")),
                    "{message}"
                );
                assert!(message.contains("CUDA_ERROR_INVALID_VALUE"), "{message}");
            }
        }
    }
}

#[test]
fn failing_events_end_the_run_too() {
    for call in [
        Call::RecordEvent,
        Call::WaitEvent,
        Call::SynchronizeEvent,
        Call::ElapsedMs,
    ] {
        for nth in 1..=12 {
            let error = failure(2, move |sim| sim.fail_nth(call, nth, ErrorCode::INVALID_VALUE));
            assert!(error.frame < FRAMES, "{error}");
        }
    }
}

#[test]
fn a_lost_device_ends_the_run() {
    for buffers in 1..=3 {
        let error = failure(buffers, |sim| {
            sim.fail_nth(Call::Launch, 4, ErrorCode::LAUNCH_FAILED)
        });
        let cause = error
            .cause
            .downcast_ref::<cuda_rt::Error>()
            .expect("an error of the device");
        assert!(
            cause.is_sticky() && error.frame <= 3 + 2 * buffers as u64,
            "{error}"
        );
    }
}

/// Passes a number of bytes, then does `then`.
struct Limited<T> {
    inner: T,
    bytes: usize,
    then: fn() -> io::Error,
}

impl<T> Limited<T> {
    fn allow(&mut self, wanted: usize) -> io::Result<usize> {
        let allowed = wanted.min(self.bytes);
        self.bytes -= allowed;
        if allowed == 0 && wanted > 0 {
            Err((self.then)())
        } else {
            Ok(allowed)
        }
    }
}

impl<T: Read> Read for Limited<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.allow(buffer.len())?;
        self.inner.read(&mut buffer[..allowed])
    }
}

impl<T: Write> Write for Limited<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let allowed = self.allow(bytes.len())?;
        self.inner.write(&bytes[..allowed])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The offset of frame `index` of [`clip`], in bytes.
fn start_of(index: usize) -> usize {
    let clip = clip();
    let starts = clip
        .windows(5)
        .enumerate()
        .filter(|(_, bytes)| *bytes == b"FRAME");
    starts.map(|(at, _)| at).nth(index).expect("that many frames")
}

fn run_between(
    source: impl Read + Send + 'static,
    sink: impl Write + Send + 'static,
    buffers: usize,
) -> Result<(), StageError> {
    ends(move || {
        Device::simulated(SimConfig::default(), |gpu| {
            overlapped(&gpu, source, sink, buffers, |_| {}, &|_| {})
        })
        .expect("a device")
        .map(drop)
    })
}

#[test]
fn the_error_of_a_failing_read_names_frame_and_byte() {
    for frame in [0, 4, 8] {
        for buffers in 1..=3 {
            let bytes = start_of(frame) + 20;
            let source = Limited {
                inner: io::Cursor::new(clip()),
                bytes,
                then: || io::Error::other("bad sector"),
            };
            let error = run_between(source, io::sink(), buffers).unwrap_err();
            assert_eq!((error.stage, error.frame), (Stage::Read, frame as u64));
            assert_eq!(
                error.to_string(),
                format!("read failed: frame {frame}, byte {bytes}: bad sector")
            );
        }
    }
}

#[test]
fn a_truncated_clip_is_an_error_after_its_complete_frames() {
    let mut clip = clip();
    clip.truncate(start_of(5) + 10);
    let error = run_between(io::Cursor::new(clip), io::sink(), 2).unwrap_err();
    assert_eq!((error.stage, error.frame), (Stage::Read, 5));
}

#[test]
fn the_error_of_a_failing_write_names_the_frame() {
    for frame in [0, 4, 8] {
        for buffers in 1..=3 {
            let then = || io::ErrorKind::StorageFull.into();
            let sink = Limited {
                inner: io::sink(),
                bytes: start_of(frame) + 20,
                then,
            };
            let error = run_between(io::Cursor::new(clip()), sink, buffers).unwrap_err();
            assert_eq!(
                (error.stage, error.frame),
                (Stage::Write, frame as u64),
                "{error}"
            );
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_with_frame_and_byte() {
    let clip = stream_420(6, 4, 60);
    let found = clip
        .windows(5)
        .enumerate()
        .filter(|(_, bytes)| *bytes == b"FRAME");
    let start = found.map(|(at, _)| at).nth(40).expect("sixty frames");
    // In the frame's luma, in its line, and between two frames, which ends no valid stream here.
    for (bytes, threads) in [(20, 1), (20, 4), (3, 3), (0, 1), (0, 4)].map(|(more, n)| (start + more, n)) {
        let stream = clip.clone();
        let error = ends(move || {
            let from = FileReader::new(file_of(&stream)).expect("a header");
            let shorten = |frames| {
                if frames == 2 {
                    from.file().set_len(bytes as u64).expect("a file");
                }
            };
            let run = |gpu: Device<cuda_rt::Scoped<'_>>| {
                overlapped_files(&gpu, &from, &file_of(b""), (2, threads), &shorten)
            };
            Device::simulated(SimConfig::default(), run)
                .expect("a device")
                .expect_err("a failure")
        });
        assert_eq!((error.stage, error.frame), (Stage::Read, 40), "{threads} threads");
        assert_eq!(
            error.to_string(),
            format!(
                "read failed: frame 40, byte {bytes}: the file ends here, but had {} bytes when it was \
                 opened: somebody shortened it",
                clip.len()
            )
        );
    }
}

/// A writer that takes all bytes, and fails when it is flushed.
struct Unflushable;

impl Write for Unflushable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_failing_flush_is_a_failing_write() {
    let error = run_between(io::Cursor::new(clip()), Unflushable, 2).unwrap_err();
    assert_eq!((error.stage, error.frame), (Stage::Write, FRAMES - 1), "{error}");
}

#[test]
fn a_panic_in_a_thread_is_passed_on() {
    let source = Limited {
        inner: io::Cursor::new(clip()),
        bytes: start_of(3),
        then: || panic!("a reader's panic"),
    };
    let panic = catch_unwind(AssertUnwindSafe(|| run_between(source, io::sink(), 2))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"a reader's panic"));
    let sink = Limited {
        inner: io::sink(),
        bytes: start_of(3),
        then: || panic!("a writer's panic"),
    };
    let panic = catch_unwind(AssertUnwindSafe(|| run_between(io::Cursor::new(clip()), sink, 2))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"a writer's panic"));
}
