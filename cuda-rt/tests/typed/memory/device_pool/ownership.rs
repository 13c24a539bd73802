//! Memory that leaves the typed API, and memory that comes from elsewhere.

use std::mem::MaybeUninit;

use cuda_rt::{DeviceBuffer, Live, Stream};

use super::{Compute, LEN, adversarial, calls, filled};

/// The elements of memory that nothing has written. On the simulated device they are junk.
pub(super) fn unwritten<D: Live>(
    compute: &Stream<Compute<D>>,
    raw: DeviceBuffer<MaybeUninit<u32>, Compute<D>>,
) -> Vec<u32> {
    // SAFETY: the memory of the simulated device holds bytes, and any bytes are a `u32`.
    let shown = unsafe { raw.assume_init() };
    compute.copy_to_vec(&shown).unwrap()
}

/// Memory of `from_raw` may be shorter than a block, or of another pool: the driver gets it back.
#[test]
fn memory_of_another_allocation_is_never_kept() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        drop(filled(&compute, 1));
        let before = calls(gpu);
        // SAFETY: the stream is live.
        let address = unsafe { gpu.driver().alloc(4 * LEN, compute.raw()) }.unwrap();
        // SAFETY: allocated above for this stream, and nothing else uses it.
        let mut raw = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, LEN) };
        compute.fill(&mut raw, 2).unwrap();
        // A part remembers it too, and the whole.
        let rest = raw.split_off(LEN / 2);
        drop(raw.join(rest).unwrap());
        assert_eq!(calls(gpu), (before.0 + 1, before.1 + 1));
        assert_eq!(compute.copy_to_vec(&filled(&compute, 3)).unwrap(), [3; LEN]);
        assert_eq!(calls(gpu).0, before.0 + 1);
    });
}

/// Memory that is given away belongs to its new owner alone.
#[test]
fn memory_that_is_given_away_does_not_come_back() {
    adversarial(1 << 30, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (address, len) = filled(&compute, 1).into_raw();
        let others: Vec<_> = (2..6).map(|value| filled(&compute, value)).collect();
        drop(others);
        let again = filled(&compute, 7);
        // SAFETY: from `into_raw` of this device, in the order of this stream.
        let first = unsafe { DeviceBuffer::<u32, _>::from_raw(&compute, address, len) };
        assert_eq!(compute.copy_to_vec(&first).unwrap(), [1; LEN]);
        let (_, freed) = calls(gpu);
        drop(first);
        assert_eq!(calls(gpu).1, freed + 1);
        assert_eq!(compute.copy_to_vec(&again).unwrap(), [7; LEN]);
    });
}
