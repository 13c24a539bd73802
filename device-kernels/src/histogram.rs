//! Counts values, after CUDA's `histogram256` sample: each warp counts in a table of its own in
//! shared memory, and each block adds its tables to the result once. Threads load 16 bytes at once.

use device_std::PhaseSafe;
use device_std::prelude::*;

/// Counted values, and threads of a block.
const BINS: usize = 256;
/// Warps of a block, each with a table.
const WARPS: usize = BINS / 32;

/// Adds the number of elements of `input` with the value `v` to `counts[v]`, for `v` below 256.
/// Larger values are not counted. Elements are `u8` or `u32`. The caller zeroes the 256 counts
/// first. Counts wrap at 2^32. Traps if `counts` has fewer than 256 elements.
///
/// The grid may have any size: all threads together stride over the input, 16 bytes for each thread
/// at a time. The final additions cost little if each thread has much to do: 8 blocks for each
/// multiprocessor fill the GPU, `Grid1::blocks(8 * multiprocessors)`.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::histogram;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let text = compute.alloc_from_slice(b"a bad cab")?;
/// let mut counts = compute.alloc_zeroed::<u32>(256)?;
/// histogram(&compute, Grid1::covering(1), &text, &mut counts)?;
/// assert_eq!(compute.copy_to_vec(&counts[b'a' as usize..][..3])?, [3, 2, 1]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [u8, u32])]
pub fn histogram<T: Counted>(
    mut block: Block,
    tables: BlockUninit<u32, 2048>,
    input: &[T],
    counts: Atomic<u32>,
) {
    let mut tables = tables.init(&mut block, |_, _| 0);
    let stride = block.blocks_x() * block.size();
    let bins = tables.atomic();
    block.threads(|thread| {
        let count = |value: T| {
            if let Some(bin) = value.bin() {
                bins.fetch_add(thread, thread.warp() % WARPS * BINS + bin % BINS, 1);
            }
        };
        T::each(input, thread.position(), stride, count);
    });
    let tables = tables.view();
    block.threads(|thread| {
        let tables = tables.slice(thread);
        let mut count = 0_u32;
        for warp in 0..WARPS {
            count = count.wrapping_add(tables[warp * BINS + thread.index()]);
        }
        if count > 0 {
            counts.fetch_add(thread, thread.index(), count);
        }
    });
}

/// An element that [`histogram`] counts: `u8` or `u32`.
pub trait Counted: Element + PhaseSafe {
    /// The value, if it is below 256.
    #[doc(hidden)]
    fn bin(self) -> Option<usize>;

    /// Calls `f` for a share of the elements: the shares of the positions below `stride` hold each
    /// element once. Whole chunks of 16 bytes are read at once.
    #[doc(hidden)]
    fn each(input: &[Self], position: usize, stride: usize, f: impl Fn(Self));
}

/// [`Counted::each`], with chunks of `N` elements.
#[inline(always)]
fn each<T: Element, const N: usize>(input: &[T], position: usize, stride: usize, f: impl Fn(T)) {
    let (before, chunks, after) = input.aligned_chunks::<N>();
    let mut at = position;
    while let Some(values) = chunks.get(at) {
        for value in values.iter() {
            f(*value);
        }
        at += stride;
    }
    // There are fewer than 16 elements on each side, if a chunk is aligned anywhere.
    let rest = |elements: &[T]| {
        let mut at = position;
        while let Some(value) = elements.get(at) {
            f(*value);
            at += stride;
        }
    };
    rest(before);
    rest(after);
}

macro_rules! counted {
    ($($type:ty, $chunk:literal, |$value:ident| $bin:expr;)*) => { $(
        impl Counted for $type {
            #[inline(always)]
            fn bin(self) -> Option<usize> {
                let $value = self;
                $bin
            }

            #[inline(always)]
            fn each(input: &[Self], position: usize, stride: usize, f: impl Fn(Self)) {
                each::<Self, $chunk>(input, position, stride, f);
            }
        }
    )* };
}

counted! {
    u8, 16, |value| Some(usize::from(value));
    u32, 4, |value| (value < BINS as u32).then_some(value as usize);
}
