//! The overlapped pipeline: a reader thread, three streams and a writer thread, all busy at once.
//!
//! ```text
//!  thread    reader                    main                  writer
//!  stream    Upload                    Compute               Download
//!            read → copy to device  →  filter             →  copy to host → write
//!  memory    page-locked, noisy        device, noisy         device, clean    page-locked, clean
//!  barrier   1 upload done             2 kernel done         3 download done  4 write done
//! ```
//!
//! Each kind of memory is a ring of N buffers, and a buffer goes round: filled, handed to the next stage, and back once
//! that stage is done with it. The way back is the barrier that is easily forgotten. Here it is a type: what comes
//! back is a [`Handoff`], which gives no access to what is in it but through `acquire`, where a *stream* waits on the GPU,
//! and `synchronize`, where the *host* waits.
//!
//! | | barrier | what would happen without it | why that does not compile |
//! |---|---|---|---|
//! | 1 | upload done | the CPU overwrites a frame while it is copied | memory in a `Handoff` has no bytes to write (H14) |
//! | 2 | kernel done | the next upload overwrites what the kernel reads | stream `Upload` does not own it (H02) |
//! | 3 | download done | the next kernel overwrites what is copied back | stream `Compute` does not own it (H02) |
//! | 4 | write done | the next download overwrites what goes to disk | the buffer is with the writer (H17) |
//!
//! The same holds forwards, from each stage to the next. No thread waits for the GPU but the two that must: the reader
//! before it refills memory, the writer before it writes. A stage that fails drops its ends of the channels; the others
//! find them closed, finish what they hold, and end.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::{Device, DeviceBuffer, Handoff, Idle, Live, PinnedBuffer, Stream, timeline};

use super::clock::{DeviceClock, Span};
use super::failure::{At, Stage, StageError};
use super::filter::Filter;
use super::report::Pass;
use crate::y4m::{FrameLine, Header, Reader, Writer};

cuda_rt::streams! {
    /// Copies noisy frames to the device.
    pub Upload;
    /// Denoises them.
    pub Compute, priority = High;
    /// Copies denoised frames back.
    pub Download;
}

/// A luma plane in page-locked host memory, with no work pending.
type HostLuma<D> = PinnedBuffer<u8, Idle<D>>;
/// A luma plane in device memory, with no work pending.
type DeviceLuma<D> = DeviceBuffer<u8, Idle<D>>;

/// A frame on its way: what never touches the device, what is there, and the times of the stages that are behind it.
type Sent<D, const STAGES: usize> = (Frame, Handoff<DeviceLuma<D>>, [Span<D>; STAGES]);

/// What is written as it was read.
struct Frame {
    index: u64,
    line: FrameLine,
    chroma: Vec<u8>,
}

/// The streams and the four rings.
pub struct Pipeline<D: Live> {
    gpu: Device<D>,
    size: (u32, u32),
    filter: Filter,
    upload: Stream<Upload<D>>,
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    noisy_host: VecDeque<Handoff<HostLuma<D>>>,
    noisy: Vec<Handoff<DeviceLuma<D>>>,
    clean: Vec<Handoff<DeviceLuma<D>>>,
    clean_host: Vec<HostLuma<D>>,
}

impl<D: Live> Pipeline<D> {
    /// Gets streams, memory and the kernel's code: `buffers` to each ring, each for a frame of this header. Blocks the host.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(gpu: &Device<D>, header: &Header, filter: Filter, buffers: usize) -> cuda_rt::Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        filter.warm_up(&compute)?;
        let luma_bytes = header.luma_bytes();
        let on_host = || (0..buffers).map(|_| gpu.pinned(luma_bytes));
        let on_device = || (0..buffers).map(|_| compute.release(compute.alloc_zeroed(luma_bytes)?));
        Ok(Self {
            gpu: gpu.clone(),
            size: header.size(),
            filter,
            upload: gpu.stream()?,
            download: gpu.stream()?,
            noisy_host: on_host()
                .map(|luma| Ok(Handoff::ready(luma?)))
                .collect::<cuda_rt::Result<_>>()?,
            noisy: on_device().collect::<cuda_rt::Result<_>>()?,
            clean: on_device().collect::<cuda_rt::Result<_>>()?,
            clean_host: on_host().collect::<cuda_rt::Result<_>>()?,
            compute,
        })
    }

    /// Denoises every frame of `clip` into `output`, and flushes it. Calls `progress` with the number of frames written.
    ///
    /// # Errors
    /// The first frame's first stage that failed. All threads have ended by then; what `output` took is unspecified.
    pub fn run(
        self,
        clip: &mut Reader<impl Read + Send>,
        output: &mut Writer<impl Write + Send>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Pass, StageError> {
        let (upload, compute, download) = (self.upload, self.compute, self.download);
        let (noisy_host, clean_host, filter, size) =
            (self.noisy_host, self.clean_host, self.filter, self.size);
        let (uploaded, to_denoise) = sync_channel(self.noisy.len());
        let (denoised, to_download) = sync_channel(self.clean.len());
        let (noisy_done, noisy_free) = returning(self.noisy);
        let (clean_done, clean_free) = returning(self.clean);

        let started = Instant::now();
        let (read, denoised, written) = thread::scope(|scope| {
            let named = |name: &str| thread::Builder::new().name(name.into());
            let reader = named("reader")
                .spawn_scoped(scope, || {
                    read_and_upload(&upload, clip, noisy_host, noisy_free, uploaded)
                })
                .expect("the system has threads");
            let writer = named("writer")
                .spawn_scoped(scope, || {
                    download_and_write(&download, output, clean_host, to_download, clean_done, progress)
                })
                .expect("the system has threads");
            let denoised = denoise(
                &compute, &filter, size, to_denoise, noisy_done, clean_free, denoised,
            );
            (reader.join(), denoised, writer.join())
        });
        let wall = started.elapsed();
        let read = read.unwrap_or_else(|panic| resume_unwind(panic));
        let written = written.unwrap_or_else(|panic| resume_unwind(panic));

        match (read, denoised, written) {
            (Ok(reading), Ok(()), Ok((clock, writing))) => Ok(clock.pass(&self.gpu, wall, reading, writing)),
            (read, denoised, written) => Err(StageError::first([read.err(), denoised.err(), written.err()])),
        }
    }
}

/// A channel on which buffers come back, with all of them in it.
fn returning<T>(buffers: Vec<T>) -> (SyncSender<T>, Receiver<T>) {
    let (done, free) = sync_channel(buffers.len());
    for buffer in buffers {
        done.send(buffer)
            .expect("the channel has room for all, and its end is here");
    }
    (done, free)
}

/// The reader thread. Ends with the clip, or when no one takes its frames any more.
fn read_and_upload<D: Live>(
    upload: &Stream<Upload<D>>,
    clip: &mut Reader<impl Read>,
    mut ring: VecDeque<Handoff<HostLuma<D>>>,
    noisy_free: Receiver<Handoff<DeviceLuma<D>>>,
    uploaded: SyncSender<Sent<D, 1>>,
) -> Result<Duration, StageError> {
    let buffers = ring.len() as u64;
    let mut reading = Duration::ZERO;
    for index in 0_u64.. {
        let luma = ring.pop_front().expect("each comes back below");
        let mut luma = luma
            .synchronize() // 1, upload done: the host waits
            .at(Stage::Upload, index.saturating_sub(buffers))?;

        let mut frame = Frame {
            index,
            line: FrameLine::default(),
            chroma: vec![0; clip.header().chroma_bytes()],
        };
        let (started, stage) = (Instant::now(), timeline::scope("read"));
        let more = clip
            .read_frame(&mut frame.line, &mut luma, &mut frame.chroma)
            .at(Stage::Read, index)?;
        drop(stage);
        reading += started.elapsed();
        if !more {
            break;
        }

        let Ok(noisy) = noisy_free.recv() else { break };
        let (luma, noisy, span) = Stage::Upload.of(index, || {
            let luma = upload.adopt(luma)?;
            let mut noisy = upload.acquire(noisy)?; // 2, kernel done: the stream waits
            let span = Span::around(upload, || upload.copy_to_device(&luma, &mut noisy))?;
            let (luma, noisy) = upload.release((luma, noisy))?.split();
            Ok((luma, noisy, span))
        })?;
        ring.push_back(luma);
        if uploaded.send((frame, noisy, [span])).is_err() {
            break;
        }
    }
    Ok(reading)
}

/// The main thread. Only enqueues: waiting is the GPU's.
fn denoise<D: Live>(
    compute: &Stream<Compute<D>>,
    filter: &Filter,
    size: (u32, u32),
    to_denoise: Receiver<Sent<D, 1>>,
    noisy_done: SyncSender<Handoff<DeviceLuma<D>>>,
    clean_free: Receiver<Handoff<DeviceLuma<D>>>,
    denoised: SyncSender<Sent<D, 2>>,
) -> Result<(), StageError> {
    for (frame, noisy, [upload]) in to_denoise {
        let Ok(clean) = clean_free.recv() else { break };
        let (noisy, clean, span) = Stage::Kernel.of(frame.index, || {
            let noisy = compute.acquire(noisy)?;
            let mut clean = compute.acquire(clean)?; // 3, download done: the stream waits
            let span = Span::around(compute, || filter.launch(compute, size, &noisy, &mut clean))?;
            let (noisy, clean) = compute.release((noisy, clean))?.split();
            Ok((noisy, clean, span))
        })?;
        let _ = noisy_done.send(noisy); // the reader may have read all there is, and be gone
        if denoised.send((frame, clean, [upload, span])).is_err() {
            break;
        }
    }
    Ok(())
}

/// The writer thread. Keeps as many downloads going as it has buffers, and writes the oldest to free one.
fn download_and_write<D: Live>(
    download: &Stream<Download<D>>,
    output: &mut Writer<impl Write>,
    mut free: Vec<HostLuma<D>>,
    to_download: Receiver<Sent<D, 2>>,
    clean_done: SyncSender<Handoff<DeviceLuma<D>>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(DeviceClock<D>, Duration), StageError> {
    let (mut clock, mut writing) = (DeviceClock::default(), Duration::ZERO);
    let mut write = |(frame, luma, spans): (Frame, Handoff<HostLuma<D>>, _)| {
        let luma = luma.synchronize().at(Stage::Download, frame.index)?; // the host waits
        clock.add(spans).at(Stage::Download, frame.index)?;
        let (started, stage) = (Instant::now(), timeline::scope("write"));
        output
            .write_frame(&frame.line, &luma, &frame.chroma)
            .at(Stage::Write, frame.index)?;
        drop(stage);
        writing += started.elapsed();
        progress(frame.index + 1);
        Ok(luma)
    };

    let mut downloading = VecDeque::with_capacity(free.len());
    for (frame, clean, [upload, kernel]) in to_download {
        let luma = match free.pop() {
            Some(luma) => luma,
            None => write(downloading.pop_front().expect("what is not free is downloading"))?, // 4, write done
        };
        let (luma, clean, span) = Stage::Download.of(frame.index, || {
            let mut luma = download.adopt(luma)?;
            let clean = download.acquire(clean)?;
            let span = Span::around(download, || download.copy_to_host(&clean, &mut luma))?;
            let (luma, clean) = download.release((luma, clean))?.split();
            Ok((luma, clean, span))
        })?;
        downloading.push_back((frame, luma, [upload, kernel, span]));
        let _ = clean_done.send(clean); // after the last frame no one takes it
    }
    for last in downloading {
        write(last)?;
    }

    let started = Instant::now();
    output
        .flush()
        .at(Stage::Write, clock.frames().saturating_sub(1))?;
    Ok((clock, writing + started.elapsed()))
}
