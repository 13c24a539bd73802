//! Timed events.
#![forbid(unsafe_code)]

use crate::devices::for_each_device;

cuda_rt::streams! {
    Upload;
}

#[test]
fn timestamps_tell_the_modelled_time() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let bytes = 55_000_000;
        let host = upload.adopt(gpu.pinned::<u8>(bytes).unwrap()).unwrap();
        let mut device = upload.alloc_zeroed::<u8>(bytes).unwrap();
        let start = upload.record_timed_event().unwrap();
        upload.copy_to_device(&host, &mut device).unwrap();
        let end = upload.record_timed_event().unwrap();
        let (start, end) = (start.synchronize().unwrap(), end.synchronize().unwrap());
        let elapsed = end.elapsed_ms_since(&start).unwrap();
        // The modelled bandwidth is 55 GB/s; a real bus differs by a small factor.
        let (least, most) = if gpu.is_simulated() {
            (0.9, 1.2)
        } else {
            (0.2, 50.0)
        };
        assert!((least..most).contains(&elapsed), "{elapsed} ms for 55 MB");
    });
}
