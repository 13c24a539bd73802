//! A pipeline allocates nothing for an item once its slots have been used. The test has its own
//! binary, because it counts every allocation of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_rt::checker::Check;
use cuda_rt::pipeline::Pipeline;
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Live};

cuda_rt::streams! {
    Upload;
    Compute;
    Download;
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes to the system allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this function's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: this function's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this function's contract is passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations from item 500 to item 2500, with one thread at the source or several.
fn of_two_thousand_items<D: Live>(gpu: &Device<D>, workers: usize) -> u64 {
    let mut at = (0, 0);
    let pipeline = Pipeline::new(gpu, 3);
    let source = match workers {
        1 => pipeline.source(64, 0..3000_u32, |_, pinned: &mut [u32]| Ok(pinned.len())),
        _ => pipeline.source_ordered(workers, 64, 0..3000, |_, pinned| Ok(pinned.len())),
    };
    source
        .upload::<Upload<D>>()
        .stage::<Compute<D>>(|stream, _, input, output| stream.copy(input, output))
        .download::<Download<D>>()
        .sink(|item, _| {
            let now = ALLOCATIONS.load(Ordering::Relaxed);
            match item {
                500 => at.0 = now,
                2500 => at.1 = now,
                _ => {}
            }
            Ok(())
        })
        .run()
        .unwrap();
    at.1 - at.0
}

#[test]
fn a_pipeline_allocates_nothing_for_an_item() {
    // In this order no operation waits in a queue of the simulated device. A queue allocates memory
    // itself, and a checker does too.
    let config = SimConfig::new().order(Order::Eager).check(Check::Off);
    let of_both = |each: &dyn Fn(usize) -> u64| each(1).max(each(3));
    let simulated = Device::simulated(config, |gpu| {
        of_both(&|workers| of_two_thousand_items(&gpu, workers))
    })
    .unwrap();
    eprintln!("{simulated} allocations on the simulated device");
    assert!(simulated < 50, "{simulated} allocations for 2000 items");
    let on_gpus =
        Device::for_each_gpu(|gpu| of_both(&|workers| of_two_thousand_items(&gpu, workers))).unwrap();
    for allocations in &on_gpus {
        assert!(*allocations < 50, "{allocations} allocations for 2000 items");
    }
    if on_gpus.is_empty() {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
    }
}
