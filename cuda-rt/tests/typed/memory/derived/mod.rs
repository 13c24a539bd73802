//! Structs and enums that derive `Bundle`.
#![forbid(unsafe_code)]

mod attacks;
mod enums;

use cuda_rt::{DeviceBuffer, Idle, PinnedBuffer, Place};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

#[derive(cuda_rt::Bundle)]
struct Frame<T, P: Place = Idle> {
    pixels: DeviceBuffer<T, P>,
    host: PinnedBuffer<T, P>,
    #[bundle(plain)]
    number: u64,
}

#[derive(cuda_rt::Bundle)]
struct Pair<P: Place = Idle>(Frame<u32, P>, Option<Vec<DeviceBuffer<f32, P>>>);

#[test]
fn derived_bundles_move_as_a_whole() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut pixels = compute.alloc_zeroed::<u32>(100).unwrap();
        compute.fill(&mut pixels, 7).unwrap();
        let host = compute.adopt(gpu.pinned(100).unwrap()).unwrap();
        let extra = Some(vec![
            compute.alloc_zeroed(3).unwrap(),
            compute.alloc_zeroed(4).unwrap(),
        ]);
        let pair = Pair(
            Frame {
                pixels,
                host,
                number: 42,
            },
            extra,
        );
        let Pair(mut frame, _) = download.acquire(compute.release(pair).unwrap()).unwrap();
        download.copy_to_host(&frame.pixels, &mut frame.host).unwrap();
        let frame = download.release(frame).unwrap().synchronize().unwrap();
        assert_eq!((frame.number, &*frame.host), (42, &[7u32; 100][..]));
    });
}
