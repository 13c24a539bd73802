//! Destructors of thread-locals that use a device, and drop its objects. Simulated kernels run
//! there, when the library's own thread-locals may already be destroyed.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use cuda_rt::checker::Check;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, DeviceBuffer, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Other;
    Writer;
    Reader;
}

/// Some of the tests depend on the order of one stream's work.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn device() -> Device {
    let config = SimConfig::new().seed(2).order(Order::Lazy).check(Check::Record);
    Device::open_or_simulate_with(config).unwrap()
}

type Last = Box<dyn FnOnce()>;

/// Runs its closure when it is dropped.
struct Late(RefCell<Option<Last>>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(last) = self.0.borrow_mut().take() {
            last();
        }
    }
}

thread_local!(static LATE: Late = const { Late(RefCell::new(None)) });

/// Runs `last` in the destructor of a thread-local, after the thread-locals that a kernel made on
/// that thread are destroyed.
fn after_the_locals<R: Send + 'static>(last: impl FnOnce(Device) -> R + Send + 'static) -> R {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = device();
    let (sender, results) = mpsc::channel();
    thread::spawn(move || {
        let late = gpu.clone();
        let last: Last = Box::new(move || {
            // Nothing may unwind out of a destructor: the process would end.
            let result = catch_unwind(AssertUnwindSafe(|| last(late)));
            let _ = sender.send(result.map_err(drop));
        });
        // Initialised first, and so dropped last.
        LATE.with(|late| *late.0.borrow_mut() = Some(last));
        let compute = gpu.stream::<Compute>().unwrap();
        assert_eq!(double(&gpu, &mut compute.alloc_zeroed(64).unwrap()), 42.0);
    })
    .join()
    .unwrap();
    let result = results.recv().expect("the destructor ran");
    assert!(device().races().is_empty());
    result.expect("a call unwound")
}

/// A kernel that doubles 21.
fn double(gpu: &Device, out: &mut DeviceBuffer<f32, Compute>) -> f32 {
    let compute = gpu.stream::<Compute>().unwrap();
    let mut input = compute.alloc_zeroed::<f32>(64).unwrap();
    compute.fill(&mut input, 21.0).unwrap();
    scale(&compute, Grid1::covering(64), &input, out, 2.0).unwrap();
    compute.synchronize().unwrap();
    let mut back = [0.0; 64];
    compute.copy_to_slice(out, &mut back).unwrap();
    back[0]
}

/// Regression: a wait for a kernel ended, and the kernel had not run.
#[test]
fn a_kernel_runs_in_the_destructor_of_a_thread_local() {
    let doubled = after_the_locals(|gpu| {
        let compute = gpu.stream::<Compute>().unwrap();
        double(&gpu, &mut compute.alloc_zeroed(64).unwrap())
    });
    assert_eq!(doubled, 42.0);
}

/// Regression: the kernel panicked under the lock of the simulated device. The device then counted
/// one operation less than it had run.
#[test]
fn blocks_freed_behind_a_kernel_in_a_destructor_have_one_owner() {
    after_the_locals(|gpu| {
        let (compute, other) = (gpu.stream::<Compute>().unwrap(), gpu.stream::<Other>().unwrap());
        let input = compute.alloc_zeroed::<f32>(64).unwrap();
        let mut out = compute.alloc_zeroed::<f32>(64).unwrap();
        let x = compute.alloc_zeroed::<u32>(1024).unwrap();
        let y = compute.alloc_zeroed::<u32>(1024).unwrap();
        compute.synchronize().unwrap();
        scale(&compute, Grid1::covering(64), &input, &mut out, 2.0).unwrap();
        drop(x);
        drop(y);
        compute.synchronize().unwrap();
        let mine = compute.alloc_zeroed::<u32>(1024).unwrap();
        let theirs: Vec<_> = (0..3).map(|_| other.alloc_zeroed::<u32>(1024).unwrap()).collect();
        assert!(theirs.iter().all(|their| their.address() != mine.address()));
    });
}

/// Regression: the record at a lease's end did not happen, and the writer did not wait for the
/// lease.
#[test]
fn a_lease_ends_behind_a_kernel_in_a_destructor() {
    let read = after_the_locals(|gpu| {
        let compute = gpu.stream::<Compute>().unwrap();
        let (reader, writer) = (gpu.stream::<Reader>().unwrap(), gpu.stream::<Writer>().unwrap());
        let input = compute.alloc_zeroed::<f32>(64).unwrap();
        let mut out = compute.alloc_zeroed::<f32>(64).unwrap();
        let mut data = writer.alloc_zeroed::<u32>(64).unwrap();
        writer.fill(&mut data, 1).unwrap();
        let shared = writer.share(data).unwrap();
        let lease = reader.lease(&shared).unwrap();
        let mut copy = reader.alloc_zeroed::<u32>(64).unwrap();
        reader.copy(&lease.view(), &mut copy).unwrap();
        scale(&compute, Grid1::covering(64), &input, &mut out, 2.0).unwrap();
        drop(lease);
        let mut data = writer.acquire(shared.reclaim().unwrap()).unwrap();
        writer.fill(&mut data, 2).unwrap();
        let mut back = [0; 64];
        reader.copy_to_slice(&copy, &mut back).unwrap();
        back
    });
    assert_eq!(read, [1; 64]);
}

/// Regression: the process ended, because the kernel that the free waited for panicked in a
/// destructor.
#[test]
fn a_thread_local_holds_buffers_that_a_kernel_still_uses() {
    thread_local!(static HELD: RefCell<Vec<DeviceBuffer<f32, Compute>>> = const { RefCell::new(Vec::new()) });
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = device();
    thread::spawn(move || {
        HELD.with_borrow(Vec::len); // First, and so dropped last.
        let compute = gpu.stream::<Compute>().unwrap();
        let input = compute.alloc_zeroed::<f32>(64).unwrap();
        let mut out = compute.alloc_zeroed::<f32>(64).unwrap();
        // Enough frees that some work runs.
        for _ in 0..5000 {
            scale(&compute, Grid1::covering(64), &input, &mut out, 2.0).unwrap();
        }
        HELD.set(vec![input, out]);
    })
    .join()
    .unwrap();
    device().stream::<Compute>().unwrap().synchronize().unwrap();
}
