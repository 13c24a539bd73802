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

use cuda_rt::{Device, DeviceBuffer, Grid2, Handoff, Idle, Live, PinnedBuffer, Stream};
use device_kernels::bilateral;

use super::args::Filter;
use super::clock::{DeviceClock, Span};
use super::failure::{At, Stage, StageError};
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

/// The streams and the four rings.
pub struct Pipeline<D: Live> {
    gpu: Device<D>,
    header: Header,
    filter: Filter,
    upload: Stream<Upload<D>>,
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    noisy_host: VecDeque<Handoff<HostLuma<D>>>,
    noisy: Vec<Handoff<DeviceLuma<D>>>,
    clean: Vec<Handoff<DeviceLuma<D>>>,
    clean_host: Vec<HostLuma<D>>,
}

/// A frame on its way to the next stage: what is of the device, and what never goes there.
struct Sent<D: Live, const STAGES: usize> {
    luma: Handoff<DeviceLuma<D>>,
    /// Times of the stages behind it.
    spans: [Span<D>; STAGES],
    rest: Rest,
}

/// What is written as it was read.
struct Rest {
    index: u64,
    line: FrameLine,
    chroma: Vec<u8>,
}

impl<D: Live> Pipeline<D> {
    /// Gets streams and memory, `buffers` to each ring.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(gpu: &Device<D>, header: &Header, filter: Filter, buffers: usize) -> cuda_rt::Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        let luma_bytes = header.luma_bytes();
        let on_host = || (0..buffers).map(|_| gpu.pinned(luma_bytes));
        let on_device = || (0..buffers).map(|_| compute.release(compute.alloc_zeroed(luma_bytes)?));
        Ok(Self {
            gpu: gpu.clone(),
            header: header.clone(),
            filter,
            upload: gpu.stream()?,
            download: gpu.stream()?,
            noisy_host: on_host()
                .map(|idle| idle.map(Handoff::ready))
                .collect::<Result<_, _>>()?,
            noisy: on_device().collect::<Result<_, _>>()?,
            clean: on_device().collect::<Result<_, _>>()?,
            clean_host: on_host().collect::<Result<_, _>>()?,
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
        let Self {
            gpu,
            header,
            filter,
            upload,
            compute,
            download,
            noisy_host,
            noisy,
            clean,
            clean_host,
        } = self;
        let (uploaded, to_denoise) = sync_channel(noisy.len());
        let (denoised, to_download) = sync_channel(clean.len());
        let (noisy_done, noisy_free) = returning(noisy);
        let (clean_done, clean_free) = returning(clean);

        let started = Instant::now();
        let (read, denoised, written) = thread::scope(|scope| {
            let reader = scope.spawn(|| read_and_upload(&upload, clip, noisy_host, noisy_free, uploaded));
            let writer = scope.spawn(|| {
                download_and_write(&download, output, clean_host, to_download, clean_done, progress)
            });
            let denoised = denoise(
                &compute, &header, &filter, to_denoise, noisy_done, clean_free, denoised,
            );
            (reader.join(), denoised, writer.join())
        });
        let wall = started.elapsed();
        let read = read.unwrap_or_else(|panic| resume_unwind(panic));
        let written = written.unwrap_or_else(|panic| resume_unwind(panic));

        match (read, denoised, written) {
            (Ok(reading), Ok(()), Ok((clock, writing))) => Ok(clock.pass(&gpu, wall, reading, writing)),
            (read, denoised, written) => {
                let errors = [read.err(), denoised.err(), written.err()];
                Err(errors
                    .into_iter()
                    .flatten()
                    .min_by_key(|error| (error.frame, error.stage))
                    .expect("one is"))
            }
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
    let mut reading = Duration::ZERO;
    for index in 0.. {
        let luma = ring.pop_front().expect("each comes back below");
        let mut luma = luma.synchronize().at(Stage::Upload, index)?; // 1, upload done: the host waits
        let (mut line, mut chroma) = (FrameLine::default(), vec![0; clip.header().chroma_bytes()]);

        let started = Instant::now();
        let more = clip
            .read_frame(&mut line, &mut luma, &mut chroma)
            .at(Stage::Read, index)?;
        reading += started.elapsed();
        let Some(noisy) = more.then(|| noisy_free.recv().ok()).flatten() else {
            break;
        };

        let (luma, noisy, span) = Stage::Upload.of(index, || {
            let mut noisy = upload.acquire(noisy)?; // 2, kernel done: the stream waits
            let luma = upload.adopt(luma)?;
            let span = Span::around(upload, || upload.copy_to_device(&luma, &mut noisy))?;
            let (luma, noisy) = upload.release((luma, noisy))?.split();
            Ok((luma, noisy, span))
        })?;

        ring.push_back(luma);
        let rest = Rest { index, line, chroma };
        if uploaded
            .send(Sent {
                luma: noisy,
                spans: [span],
                rest,
            })
            .is_err()
        {
            break;
        }
    }
    Ok(reading)
}

/// The main thread. Only enqueues; the GPU does the waiting.
fn denoise<D: Live>(
    compute: &Stream<Compute<D>>,
    header: &Header,
    filter: &Filter,
    to_denoise: Receiver<Sent<D, 1>>,
    noisy_done: SyncSender<Handoff<DeviceLuma<D>>>,
    clean_free: Receiver<Handoff<DeviceLuma<D>>>,
    denoised: SyncSender<Sent<D, 2>>,
) -> Result<(), StageError> {
    let (width, height) = (header.width(), header.height());
    let grid = Grid2::covering(width as usize, height as usize);
    for Sent {
        luma: noisy,
        spans: [uploaded],
        rest,
    } in to_denoise
    {
        let Ok(clean) = clean_free.recv() else { break };
        let (noisy, clean, span) = Stage::Kernel.of(rest.index, || {
            let noisy = compute.acquire(noisy)?;
            let mut clean = compute.acquire(clean)?; // 3, download done: the stream waits
            let Filter {
                radius,
                sigma_space,
                sigma_range,
            } = *filter;
            let span = Span::around(compute, || {
                bilateral(
                    compute,
                    grid,
                    &noisy,
                    &mut clean,
                    width,
                    height,
                    radius,
                    sigma_space,
                    sigma_range,
                )
            })?;
            let (noisy, clean) = compute.release((noisy, clean))?.split();
            Ok((noisy, clean, span))
        })?;

        // The reader may have read all there is, and be gone.
        let _ = noisy_done.send(noisy);
        if denoised
            .send(Sent {
                luma: clean,
                spans: [uploaded, span],
                rest,
            })
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

/// A frame on its way to the host.
struct Downloading<D: Live> {
    luma: Handoff<HostLuma<D>>,
    spans: [Span<D>; 3],
    rest: Rest,
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
    let mut write = |Downloading { luma, spans, rest }: Downloading<D>| {
        let luma = luma.synchronize().at(Stage::Download, rest.index)?; // the host waits, then may read
        clock.add(spans).at(Stage::Download, rest.index)?;
        let started = Instant::now();
        output
            .write_frame(&rest.line, &luma, &rest.chroma)
            .at(Stage::Write, rest.index)?;
        writing += started.elapsed();
        progress(rest.index + 1);
        Ok(luma)
    };

    let mut downloading = VecDeque::with_capacity(free.len());
    for Sent {
        luma: clean,
        spans: [uploaded, denoised],
        rest,
    } in to_download
    {
        // 4, write done: `write` gives the memory back.
        let luma = match free.pop() {
            Some(luma) => luma,
            None => write(downloading.pop_front().expect("what is not free is downloading"))?,
        };
        let (luma, clean, span) = Stage::Download.of(rest.index, || {
            let clean = download.acquire(clean)?;
            let mut luma = download.adopt(luma)?;
            let span = Span::around(download, || download.copy_to_host(&clean, &mut luma))?;
            let (luma, clean) = download.release((luma, clean))?.split();
            Ok((luma, clean, span))
        })?;
        downloading.push_back(Downloading {
            luma,
            spans: [uploaded, denoised, span],
            rest,
        });
        // The last frames' memory has no one to go back to.
        let _ = clean_done.send(clean);
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
