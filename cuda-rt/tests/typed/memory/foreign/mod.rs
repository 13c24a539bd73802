//! Foreign memory: it works as the library's own memory does, and is released once, after its last
//! use.

mod attacks;

use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use cuda_rt::checker::Check;
use cuda_rt::driver::{DeviceAddress, ErrorCode, HostMemory};
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Idle, Live, PinnedBuffer, Scoped, Stream};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Download;
}

const LEN: usize = 64;

const BYTES: usize = LEN * 4;

/// A time limit longer than any release takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Memory of another owner, made by raw calls, with a way to see its release.
struct Theirs<'a, D> {
    gpu: &'a Device<D>,
    address: DeviceAddress,
    given_back: Receiver<()>,
}

impl<'a, D: Live> Theirs<'a, D> {
    fn new(gpu: &'a Device<D>) -> (Self, DeviceBuffer<u32, Compute<D>>) {
        let (compute, driver) = (gpu.stream::<Compute<D>>().unwrap(), gpu.driver());
        // SAFETY: the stream is live.
        let address = unsafe { driver.alloc(BYTES, compute.raw()) }.unwrap();
        // SAFETY: the memory was just allocated on this stream.
        unsafe { driver.fill(address, &[0], BYTES, compute.raw()) }.unwrap();
        let (sender, given_back) = channel();
        let release = move || sender.send(()).unwrap();
        // SAFETY: the memory was allocated and zeroed in this stream's order, and `end` frees it
        // after the release.
        let buffer = unsafe { DeviceBuffer::from_foreign(&compute, address, LEN, release) };
        let theirs = Self {
            gpu,
            address,
            given_back,
        };
        (theirs, buffer)
    }

    /// Waits until the memory is released, and frees it.
    #[track_caller]
    fn end(self) {
        self.given_back.recv_timeout(PATIENCE).expect("it is given back");
        // Released once: the closure and its sender are gone.
        assert!(self.given_back.recv().is_err());
        let compute = self.gpu.stream::<Compute<D>>().unwrap();
        // SAFETY: `new` allocated the memory; no use is left.
        unsafe { self.gpu.driver().free(self.address, compute.raw()) }.unwrap();
    }
}

fn read<D: Live>(
    gpu: &Device<D>,
    stream: &Stream<Download<D>>,
    buffer: &DeviceBuffer<u32, Download<D>>,
) -> Vec<u32> {
    let mut host = stream.adopt(gpu.pinned(buffer.len()).unwrap()).unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

#[test]
fn device_memory_is_used_as_ours_and_given_back_once() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let (theirs, mut buffer) = Theirs::new(gpu);
        compute.fill(&mut buffer, 7).unwrap();
        let buffer = download.acquire(compute.release(buffer).unwrap()).unwrap();
        assert_eq!(read(gpu, &download, &buffer), [7; LEN]);
        drop(buffer);
        theirs.end();
    });
}

/// Dropped on a stream, idle, in transit, as halves on two streams, and as halves that were joined.
#[test]
fn device_memory_goes_back_however_it_is_dropped() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        for way in 0..5 {
            let (theirs, mut buffer) = Theirs::new(gpu);
            compute.fill(&mut buffer, 1).unwrap();
            match way {
                0 => drop(buffer),
                1 => drop(compute.release(buffer).unwrap().synchronize().unwrap()),
                2 => drop(compute.release(buffer).unwrap()),
                3 => {
                    let half = buffer.split_off(LEN / 2);
                    drop(buffer);
                    let mut half = download.acquire(compute.release(half).unwrap()).unwrap();
                    download.fill(&mut half, 2).unwrap();
                }
                _ => {
                    let half = buffer.split_off(LEN / 2);
                    let whole = buffer.join(half).unwrap();
                    assert_eq!(whole.len(), LEN);
                }
            }
            theirs.end();
        }
        if let Some(simulator) = gpu.simulator() {
            compute.synchronize().unwrap();
            assert_eq!(simulator.counters().allocations_live, 0);
        }
    });
}

/// The release comes after the last use: the memory then holds what the last use wrote.
#[test]
fn h16_pinned_memory_goes_back_behind_its_download() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for (way, value) in [(0, 5), (1, 6), (2, 7), (3, 8)] {
            let (memory, back) = lent(gpu);
            let mut host = compute.adopt(memory).unwrap();
            let buffer = compute
                .init_filled(compute.alloc_uninit(LEN).unwrap(), value)
                .unwrap();
            compute.copy_to_host(&buffer, &mut host).unwrap();
            match way {
                0 => drop(host),
                1 => drop(compute.release(host).unwrap()),
                2 => {
                    let tail = host.split_off(10);
                    drop(host);
                    drop(compute.release(tail).unwrap());
                }
                _ => {
                    let mut idle = compute.release(host).unwrap().synchronize().unwrap();
                    assert_eq!(*idle, [value; LEN]);
                    idle[0] = value;
                }
            }
            assert_eq!(ended(gpu, back), [value; LEN], "way {way}");
        }
    });
}

/// Page-locked memory whose release sends it back, with its contents at that time.
fn lent<D: Live>(gpu: &Device<D>) -> (PinnedBuffer<u32, Idle<D>>, Receiver<HostMemory>) {
    let memory = HostMemory::map(BYTES).unwrap();
    // SAFETY: the memory was just mapped, and is unregistered in `ended`.
    unsafe { gpu.driver().register_host(&memory) }.unwrap();
    let start = memory.address().cast::<u32>();
    let (sender, back): (Sender<HostMemory>, _) = channel();
    let release = move || sender.send(memory).unwrap();
    // SAFETY: the memory is mapped, zeroed, aligned to a page, and page-locked for every GPU.
    // Nothing else uses it until its release.
    let buffer = unsafe { PinnedBuffer::from_foreign(gpu, start, LEN, release) };
    (buffer, back)
}

#[track_caller]
fn ended<D: Live>(gpu: &Device<D>, back: Receiver<HostMemory>) -> Vec<u32> {
    let memory = back.recv_timeout(PATIENCE).expect("it is given back");
    // SAFETY: the memory is mapped for this many elements, and no work uses it any more.
    let held = unsafe { std::slice::from_raw_parts(memory.address().cast::<u32>().as_ptr(), LEN) }.to_vec();
    // SAFETY: `lent` registered the memory, and no work uses it.
    unsafe { gpu.driver().unregister_host(&memory) }.unwrap();
    held
}

#[test]
fn memory_of_no_bytes_goes_back_too() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (sender, back) = channel();
        let other = sender.clone();
        // SAFETY: the buffer has no memory.
        let device = unsafe {
            DeviceBuffer::<u32, _>::from_foreign(&compute, DeviceAddress(0), 0, move || {
                sender.send(1).unwrap()
            })
        };
        let start = NonNull::<u32>::dangling();
        // SAFETY: as above.
        let host = unsafe { PinnedBuffer::from_foreign(gpu, start, 0, move || other.send(2).unwrap()) };
        assert!(host.is_empty());
        drop((device, host));
        let mut given = [
            back.recv_timeout(PATIENCE).unwrap(),
            back.recv_timeout(PATIENCE).unwrap(),
        ];
        given.sort_unstable();
        assert_eq!(given, [1, 2]);
    });
}

/// If the end of the last use cannot be known, for any reason, the closure is neither run nor
/// dropped with its captures.
#[test]
fn memory_that_may_still_be_used_is_never_given_back() {
    type Break = for<'a, 'id> fn(&'a Device<Scoped<'id>>);
    let ways: [Break; 3] = [
        |gpu| {
            gpu.simulator()
                .unwrap()
                .fail_next(Call::RecordEvent, ErrorCode::OUT_OF_MEMORY);
        },
        |gpu| {
            gpu.simulator()
                .unwrap()
                .fail_next(Call::RecordEvent, ErrorCode::LAUNCH_FAILED);
        },
        |gpu| {
            gpu.simulator()
                .unwrap()
                .fail_next(Call::QueryEvent, ErrorCode::LAUNCH_FAILED);
        },
    ];
    for (way, break_it) in ways.into_iter().enumerate() {
        let config = SimConfig::default().order(Order::Lazy);
        Device::simulated(config, |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let (theirs, mut buffer) = Theirs::new(&gpu);
            compute.fill(&mut buffer, 1).unwrap();
            let (memory, back) = lent(&gpu);
            let mut host = compute.adopt(memory).unwrap();
            compute.copy_to_host(&buffer, &mut host).unwrap();
            break_it(&gpu);
            drop(buffer);
            let device = theirs.given_back.recv_timeout(Duration::from_millis(100));
            assert_eq!(
                device,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout),
                "way {way}: neither run nor dropped"
            );
            if way == 0 {
                // Only the end of this use is unknown.
                drop(host);
                ended(&gpu, back);
            } else {
                drop(host);
                let pinned = back.recv_timeout(Duration::from_millis(100));
                assert!(matches!(pinned, Err(std::sync::mpsc::RecvTimeoutError::Timeout)));
            }
        })
        .unwrap();
    }
}

#[test]
fn h22_forgotten_foreign_memory_is_leaked_and_no_more() {
    for_each_device(|gpu| {
        let (theirs, mut buffer) = Theirs::new(gpu);
        let half = buffer.split_off(LEN / 2);
        std::mem::forget(half);
        drop(buffer);
        let compute = gpu.stream::<Compute<_>>().unwrap();
        compute.synchronize().unwrap();
        assert!(theirs.given_back.recv_timeout(Duration::from_millis(20)).is_err());
        // SAFETY: the memory was allocated on this stream, and the forgotten buffer is never used.
        unsafe { gpu.driver().free(theirs.address, compute.raw()) }.unwrap();
    });
}

#[test]
#[should_panic(expected = "nor can foreign memory")]
fn foreign_memory_is_not_given_away_by_its_address() {
    Device::simulated(SimConfig::default(), |gpu| {
        let (_theirs, buffer) = Theirs::new(&gpu);
        buffer.into_raw();
    })
    .unwrap();
}

/// A release that panics, and a release that waits for the device, block nothing.
#[test]
fn a_release_may_block_and_may_panic() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (sender, back) = channel();
        // SAFETY: the buffer has no memory.
        let panics = unsafe {
            DeviceBuffer::<u32, _>::from_foreign(&compute, DeviceAddress(0), 0, || {
                std::panic::panic_any("in a release");
            })
        };
        let blocks = move || {
            std::thread::sleep(Duration::from_millis(5));
            sender.send(()).unwrap();
        };
        // SAFETY: as above.
        let blocks = unsafe { DeviceBuffer::<u32, _>::from_foreign(&compute, DeviceAddress(0), 0, blocks) };
        drop((panics, blocks));
        assert!(back.try_recv().is_err(), "dropping does not wait");
        back.recv_timeout(PATIENCE).unwrap();
    });
}

/// The checker knows when the memory is released: foreign work that is not ordered before the
/// release is a race.
#[test]
fn the_checker_follows_foreign_memory_to_its_end() {
    for ordered in [true, false] {
        let config = SimConfig::default().check(Check::Record).order(Order::Lazy);
        let races = Device::simulated(config, |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let (theirs, buffer) = Theirs::new(&gpu);
            compute.synchronize().unwrap();
            let stream = if ordered { compute.raw() } else { download.raw() };
            // SAFETY: the memory is live and in bounds. The work on the other stream breaks the
            // contract of `from_foreign`: that is the race to be found. The simulated device runs
            // one operation at a time.
            unsafe { gpu.driver().fill(theirs.address, &[1], BYTES, stream) }.unwrap();
            drop(buffer);
            theirs.given_back.recv_timeout(PATIENCE).unwrap();
            gpu.races()
        })
        .unwrap();
        let found: Vec<_> = races.iter().map(|race| race.second.operation.name).collect();
        let expected: &[&str] = if ordered {
            &[]
        } else {
            &["release of foreign memory"]
        };
        assert_eq!(found, expected, "{races:?}");
    }
}

/// Access between devices is given to their pools, and foreign memory is in no pool. A kernel on it
/// would lose the device.
#[test]
fn foreign_memory_is_not_lent_to_another_device() {
    Device::simulated(SimConfig::new(), |here| {
        here.simulated_peer(|there| {
            let (compute, owner) = (
                here.stream::<Compute<_>>().unwrap(),
                there.stream::<Compute<_>>().unwrap(),
            );
            let (theirs, buffer) = Theirs::new(&there);
            let refused = compute
                .try_acquire_peer(owner.release(buffer).unwrap())
                .unwrap_err();
            let code = refused.error.driver().unwrap().code();
            assert_eq!(code, ErrorCode::NOT_SUPPORTED, "{}", refused.error);
            assert!(refused.error.to_string().contains("adopted"), "{}", refused.error);
            drop(owner.acquire(refused.value).unwrap());
            theirs.end();
        })
    })
    .unwrap()
    .unwrap();
}
