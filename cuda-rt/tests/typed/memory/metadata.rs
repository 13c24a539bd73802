//! Values of the host that move with a bundle, and attacks by their destructors.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Bundle, Constant, Device, DeviceBuffer, Idle, Metadata, Place};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Download;
}

#[derive(Bundle)]
struct Tensor<T, P: Place = Idle> {
    before: DeviceBuffer<f32, P>,
    about: Metadata<T, P>,
    after: DeviceBuffer<f32, P>,
}

#[test]
fn metadata_moves_with_its_bundle_and_views_outlive_it() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let tensor = Tensor {
            before: compute.alloc_zeroed(2).unwrap(),
            about: Metadata::new(vec![String::from("weights")]),
            after: compute.alloc_zeroed(3).unwrap(),
        };
        let pending = compute.release(tensor).unwrap();
        let peeked = pending.peek().about;
        assert_eq!(peeked[0], "weights");
        let mut tensor = download.acquire(pending).unwrap();
        assert!(tensor.about.value_mut().is_none(), "a view is left");
        tensor.about.make_mut()[0].push_str(", transposed");
        assert!(
            tensor.about.value_mut().is_some(),
            "the view has a value of its own"
        );
        let idle = download.release(tensor).unwrap().synchronize().unwrap();
        assert_eq!((&*idle.about[0], &*peeked[0]), ("weights, transposed", "weights"));
        assert_eq!(
            format!("{:?}", idle.about),
            r#"Metadata(["weights, transposed"])"#
        );
        let constant = compute.adopt(Constant::new(idle)).unwrap();
        let kept = constant.view().about;
        assert_eq!(kept.into_arc()[0], "weights, transposed");
    });
}

#[test]
fn metadata_is_dropped_once_with_the_last_of_its_bundle_and_its_views() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let counted = Arc::new(());
        let bundle = || {
            (
                compute.alloc_zeroed::<u8>(4).unwrap(),
                Metadata::new(Arc::clone(&counted)),
            )
        };
        let pending = compute.release(bundle()).unwrap();
        assert_eq!(Arc::strong_count(&counted), 2);
        let view = pending.peek().1;
        drop(pending);
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(view);
        assert_eq!(Arc::strong_count(&counted), 1);
        let shared = compute.share(bundle()).unwrap();
        let lease = compute.lease(&shared).unwrap();
        drop(shared);
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(lease);
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}

/// Panics as it is dropped, after work on another device.
struct Loud(Arc<AtomicUsize>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        Device::simulated(SimConfig::new(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            assert_eq!(
                compute
                    .copy_to_vec(&compute.alloc_zeroed::<u8>(2).unwrap())
                    .unwrap(),
                [0; 2]
            );
        })
        .unwrap();
        panic!("a destructor of the user's");
    }
}

/// The parts before the metadata are freed, the parts after it leak; nothing is freed twice.
#[test]
fn attack_a_destructor_that_panics_while_its_bundle_is_freed() {
    for seed in 0..8 {
        Device::simulated(SimConfig::new().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let dropped = Arc::new(AtomicUsize::new(0));
            let tensor = |about| Tensor {
                before: compute.alloc_zeroed(2).unwrap(),
                about,
                after: compute.alloc_zeroed(3).unwrap(),
            };
            let frees = || gpu.simulator().unwrap().counters().frees();
            let loud = || Metadata::new(Loud(Arc::clone(&dropped)));
            let before = frees();
            let pending = compute.release(tensor(loud())).unwrap();
            assert!(catch_unwind(AssertUnwindSafe(|| drop(pending))).is_err());
            assert_eq!((frees() - before, dropped.load(Ordering::Relaxed)), (1, 1));
            // A drop of the struct itself is Rust's own: it goes on behind the panic.
            let owned = tensor(loud());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(owned))).is_err());
            assert_eq!((frees() - before, dropped.load(Ordering::Relaxed)), (3, 2));
            compute.synchronize().unwrap();
        })
        .unwrap();
    }
}

/// A value may own memory of a stream: it stays with that stream, whatever the bundle does.
#[test]
fn attack_hide_a_buffer_of_another_stream_in_metadata() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut hidden = compute.alloc_zeroed::<u32>(64).unwrap();
        compute.fill(&mut hidden, 7).unwrap();
        let bundle = (download.alloc_zeroed::<u8>(1).unwrap(), Metadata::new(hidden));
        let (_, about) = compute.acquire(download.release(bundle).unwrap()).unwrap();
        assert_eq!(compute.copy_to_vec(&about).unwrap(), [7; 64]);
        let pending = compute.release((Metadata::from(about.into_arc()),)).unwrap();
        assert_eq!(compute.copy_to_vec(&pending.peek().0).unwrap(), [7; 64]);
    });
}
