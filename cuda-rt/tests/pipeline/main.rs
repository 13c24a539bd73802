//! Pipelines: shapes, edge cases, failures at every stage, and overlap, in many adversarial orders.
#![forbid(unsafe_code)]

#[path = "../devices/mod.rs"]
mod devices;
mod failures;
mod overlap;
mod rings;
mod shapes;
mod sinks;
mod sources;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cuda_rt::pipeline::{Pipeline, PipelineError, Report};
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::scale;

use devices::for_each_device;

cuda_rt::streams! {
    Upload;
    Compute, priority = High;
    Second;
    Download;
}

const CAPACITY: usize = 100;

/// Items differ in length, and some are empty.
fn len_of(item: u32) -> usize {
    [CAPACITY, 1, 37, 0, 64][item as usize % 5]
}

fn element(item: u32, index: usize) -> f32 {
    item as f32 * 1000.0 + index as f32
}

fn fill(item: u32, pinned: &mut [f32]) -> usize {
    let len = len_of(item);
    for (index, value) in pinned[..len].iter_mut().enumerate() {
        *value = element(item, index);
    }
    len
}

/// The result of the stages of [`whole`] for an item.
fn expected(item: u32) -> Vec<f32> {
    (0..len_of(item))
        .map(|index| element(item, index) * 6.0)
        .collect()
}

/// The closure that is to fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nowhere,
    Items,
    Source,
    Kernel,
    InPlace,
    Sink,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Error,
    Panic,
}

/// The closure fails on item 7.
#[derive(Clone, Copy, Debug)]
struct Trouble(At, How);

impl Trouble {
    const NONE: Self = Self(At::Nowhere, How::Error);

    fn strikes(self, at: At, item: u32) -> Result<(), Error> {
        match self {
            Self(place, How::Error) if place == at && item == 7 => Err(Error::SlotEmpty),
            Self(place, How::Panic) if place == at && item == 7 => std::panic::panic_any("in the closure"),
            _ => Ok(()),
        }
    }
}

type Delivered = Vec<(u32, Vec<f32>)>;

/// Waits until `holds`, and leaves the processor to the threads that make it hold.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Fails on items 8 and 9, on item 8 only after item 9 has failed.
fn item_9_fails_before_item_8() -> impl Fn(u32) -> Result<(), Error> + Send + Sync {
    let later_failed = AtomicBool::new(false);
    move |item| match item {
        8 => {
            until(|| later_failed.load(Ordering::SeqCst));
            Err(Error::SlotEmpty)
        }
        9 => {
            later_failed.store(true, Ordering::SeqCst);
            Err(Error::SlotEmpty)
        }
        _ => Ok(()),
    }
}

/// A pipeline with all kinds of stages, through the GPU and back. Also returns what the sink
/// received.
fn whole<D: Live>(
    gpu: &Device<D>,
    buffers: usize,
    items: u32,
    trouble: Trouble,
) -> (Result<Report, PipelineError>, Delivered) {
    let mut delivered = Vec::new();
    let items = (0..items).inspect(|item| trouble.strikes(At::Items, *item).expect("no error, a panic"));
    let outcome = Pipeline::new(gpu, buffers)
        .source(CAPACITY, items, |item, pinned: &mut [f32]| {
            let len = fill(*item, pinned);
            trouble.strikes(At::Source, *item)?;
            Ok(len)
        })
        .upload::<Upload<_>>()
        .stage::<Compute<_>>(|stream, item, input, output| {
            trouble.strikes(At::Kernel, *item)?;
            scale(stream, Grid1::covering(output.len()), input, output, 2.0)
        })
        .in_place::<Second<_>>(|stream, item, data| {
            let mut copy = stream.alloc_zeroed(data.len())?;
            stream.copy(data, &mut copy)?;
            trouble.strikes(At::InPlace, *item)?;
            scale(stream, Grid1::covering(data.len()), &copy, data, 3.0)
        })
        .download::<Download<_>>()
        .sink(|item, data| {
            trouble.strikes(At::Sink, item)?;
            delivered.push((item, data.to_vec()));
            Ok(())
        })
        .run();
    (outcome, delivered)
}

fn assert_prefix(delivered: &Delivered) {
    for ((item, data), index) in delivered.iter().zip(0..) {
        assert_eq!(*item, index, "in order");
        assert_eq!(*data, expected(index), "item {index}");
    }
}

/// Runs `test` and fails if it does not end: a deadlock must not hang the suite.
fn ends<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(test()));
    match ended.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: no end after two minutes"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

fn to_host<D: Live, T: cuda_rt::Element>(
    gpu: &Device<D>,
    buffer: cuda_rt::DeviceBuffer<T, Compute<D>>,
) -> Vec<T> {
    let compute = gpu.stream::<Compute<D>>().unwrap();
    let mut host = compute.adopt(gpu.pinned::<T>(buffer.len()).unwrap()).unwrap();
    compute.copy_to_host(&buffer, &mut host).unwrap();
    compute.release(host).unwrap().synchronize().unwrap().to_vec()
}
