//! Slices of buffers: ranges, halves and chunks are at the right place, and cannot reach memory
//! outside their source.
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::ops::{IndexMut, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, RangeIndex, Stream};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Lane;
    Compute;
}

const LEN: usize = 100;

fn refuses<O>(what: impl Debug, body: impl FnOnce() -> O) {
    assert!(
        catch_unwind(AssertUnwindSafe(body)).is_err(),
        "{what:?} was taken"
    );
}

#[test]
fn ranges_end_where_the_buffer_does() {
    fn check<V, R>(view: &mut V, range: R)
    where
        V: IndexMut<R> + ?Sized,
        R: RangeIndex + RangeBounds<usize> + Clone + Debug,
    {
        refuses(range.clone(), || _ = &view[range.clone()]);
        refuses(range.clone(), || _ = &mut view[range.clone()]);
    }
    for_each_device(|gpu| {
        let lane = gpu.stream::<Lane<_>>().unwrap();
        let mut device = lane.alloc_zeroed::<u32>(LEN).unwrap();
        let mut host = lane.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let (device, host) = (&mut *device, &mut *host);
        let backwards = std::ops::Range { start: 60, end: 40 };
        for range in [
            0..LEN + 1,
            LEN + 1..LEN + 1,
            backwards,
            1..usize::MAX,
            0..usize::MAX,
        ] {
            check(device, range.clone());
            check(host, range);
        }
        check(device, ..LEN + 1);
        check(device, LEN + 1..);
        check(device, ..=LEN);
        check(device, 0..=usize::MAX);
        check(device, ..=usize::MAX);
        check(host, ..=usize::MAX);
        refuses("split", || _ = device.split_at(LEN + 1));
        refuses("split", || _ = device.split_at_mut(LEN + 1));
        refuses("split", || _ = host.split_at_mut(LEN + 1));
        refuses("chunks", || _ = device.chunks_exact(0));
        refuses("chunks", || _ = device.chunks_exact_mut(0));
        assert_eq!(
            (device[LEN..].len(), host[..0].len(), device[..=LEN - 1].len()),
            (0, 0, LEN)
        );
        // For a part, the rest of its buffer is outside too.
        let part = &mut device[10..20];
        check(part, ..11);
        refuses("split", || _ = part.split_at_mut(11));
    });
}

/// Start and end of a view, in elements from the start of its buffer.
fn place<P>(buffer: u64, view: &DeviceSlice<u32, P>) -> (usize, usize) {
    let start = (view.address().0 - buffer) as usize / size_of::<u32>();
    (start, start + view.len())
}

#[test]
fn halves_and_chunks_meet_and_do_not_overlap() {
    for_each_device(|gpu| {
        let lane = gpu.stream::<Lane<_>>().unwrap();
        let mut buffer = lane.alloc_zeroed::<u32>(LEN).unwrap();
        let start = buffer.address().0;
        for mid in [0, 1, 33, LEN - 1, LEN] {
            let whole = [(0, mid), (mid, LEN)];
            let (left, right) = buffer.split_at(mid);
            assert_eq!([place(start, left), place(start, right)], whole);
            let (left, right) = buffer.split_at_mut(mid);
            assert_eq!([place(start, left), place(start, right)], whole);
        }
        let chunks = |len: usize| (0..LEN / len).map(move |at| (at * len, (at + 1) * len));
        for len in [1, 7, 50, LEN, LEN + 1] {
            assert!(
                buffer
                    .chunks_exact(len)
                    .map(|chunk| place(start, chunk))
                    .eq(chunks(len))
            );
            assert!(
                buffer
                    .chunks_exact_mut(len)
                    .map(|chunk| place(start, chunk))
                    .eq(chunks(len))
            );
        }
        fill_and_read(&lane, buffer);
        let mut host = lane.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let first = host.address();
        let (left, right) = host.split_at_mut(33);
        assert_eq!((left.len(), right.len(), left.address()), (33, LEN - 33, first));
        assert_eq!(
            right.address().addr().get(),
            first.addr().get() + 33 * size_of::<u32>()
        );
    });
}

/// Each part gets its own bytes, whatever the order of writes.
fn fill_and_read<D: cuda_rt::Live>(lane: &Stream<Lane<D>>, mut buffer: DeviceBuffer<u32, Lane<D>>) {
    let (left, right) = buffer.split_at_mut(33);
    lane.fill(right, 2).unwrap();
    lane.fill(left, 1).unwrap();
    let mut read = [0; LEN];
    lane.copy_to_slice(&buffer, &mut read).unwrap();
    assert_eq!((&read[..33], &read[33..]), (&[1; 33][..], &[2; LEN - 33][..]));
}

fn panics<T>(body: impl FnOnce() -> T) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
}

#[test]
fn attack_ranges_outside_or_inside_out() {
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<u64>(8).unwrap();
        let mut host = stream.adopt(gpu.pinned::<u64>(8).unwrap()).unwrap();
        let (start, end) = (5, 3);
        assert!(panics(|| device[start..end].len()));
        assert!(panics(|| device[..9].len()));
        assert!(panics(|| device[9..].len()));
        assert!(panics(|| device[0..=usize::MAX].len()));
        assert!(panics(|| device[..=8].len()));
        assert!(panics(|| host[start..end].len()));
        assert!(panics(|| host[0..=usize::MAX].len()));
        assert!(panics(|| device.split_at(9).0.len()));
        assert!(panics(|| device.split_at_mut(usize::MAX).0.len()));
        assert!(panics(|| host.split_at_mut(9).0.len()));
        assert!(panics(|| device.chunks_exact(0).count()));
        assert_eq!(device.chunks_exact(usize::MAX).count(), 0);
        assert_eq!((device[8..].len(), host[8..].len()), (0, 0));
    })
    .unwrap();
}
