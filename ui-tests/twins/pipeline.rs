use std::sync::atomic::{AtomicU32, Ordering};

use cuda_rt::pipeline::{Pipeline, Ring};
use cuda_rt::{Device, Error, Handoff};

cuda_rt::streams! {
    Upload;
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;

    let mut sums = Vec::new();
    let report = Pipeline::new(&gpu, 2)
        .source(4, 0..9, |item, pinned: &mut [f32]| {
            pinned.fill(*item as f32);
            Ok(pinned.len())
        })
        .upload::<Upload>()
        .stage::<Compute>(|stream, _, input, output| stream.copy(input, output))
        .download::<Download>()
        .sink(|item, data| {
            sums.push((item, data.iter().sum::<f32>()));
            Ok(())
        })
        .run()
        .unwrap();
    assert_eq!(report.items, 9);
    assert_eq!(sums[8], (8, 32.0));

    // Four threads fill slots, and four use them; each has its slot to itself until it returns.
    let total = AtomicU32::new(0);
    let report = Pipeline::new(&gpu, 4)
        .source_ordered(4, 4, 0..9, |item, pinned: &mut [u32]| {
            pinned.fill(*item);
            Ok(pinned.len())
        })
        .upload::<Upload>()
        .download::<Download>()
        .sink_unordered(4, |_, data| {
            total.fetch_add(data.iter().sum(), Ordering::Relaxed);
            Ok(())
        })
        .run()
        .unwrap();
    assert_eq!((report.items, total.into_inner()), (9, 4 * 36));

    let ring = Ring::new(&gpu, vec![Handoff::ready(gpu.pinned::<u8>(8)?)]);
    let mut slot = ring.take();
    slot.host(|memory| memory.fill(1))?;
    drop(slot);
    ring.take().host(|memory| assert_eq!(**memory, [1; 8]))
}
