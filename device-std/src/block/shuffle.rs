//! Exchanges of values between the lanes of a warp, through registers.

use super::phases::Block;
use super::private::Private;
use super::thread::{Dimensions, WARP};
#[cfg(target_arch = "nvptx64")]
use crate::device::warp;
use crate::element::Element;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// An element that lanes can exchange through registers, 32 bits at a time: numbers of 16, 32 and
/// 64 bits, and arrays of them.
pub trait ShuffleElement: Element + sealed::Sealed {
    /// Sends the value through `exchange`, word by word.
    #[doc(hidden)]
    fn exchange(self, exchange: &impl Fn(u32) -> u32) -> Self;
}

macro_rules! words {
    ($($type:ty = $words:ty;)*) => { $(
        impl sealed::Sealed for $type {}
        impl ShuffleElement for $type {
            #[inline(always)]
            fn exchange(self, exchange: &impl Fn(u32) -> u32) -> Self {
                let words: $words = bytemuck::cast(self);
                bytemuck::cast(words.map(exchange))
            }
        }
    )* };
}
words! {
    u32 = [u32; 1];
    i32 = [u32; 1];
    f32 = [u32; 1];
    u64 = [u32; 2];
    i64 = [u32; 2];
    f64 = [u32; 2];
    usize = [u32; 2];
    isize = [u32; 2];
}

/// Elements of 16 bits travel in the low half of a word.
macro_rules! halves {
    ($($type:ty)*) => { $(
        impl sealed::Sealed for $type {}
        impl ShuffleElement for $type {
            #[inline(always)]
            fn exchange(self, exchange: &impl Fn(u32) -> u32) -> Self {
                bytemuck::cast(exchange(u32::from(bytemuck::cast::<_, u16>(self))) as u16)
            }
        }
    )* };
}
halves!(u16 i16);
#[cfg(feature = "half")]
halves!(half::f16 half::bf16);

impl<T: ShuffleElement, const N: usize> sealed::Sealed for [T; N] {}
impl<T: ShuffleElement, const N: usize> ShuffleElement for [T; N] {
    #[inline(always)]
    fn exchange(self, exchange: &impl Fn(u32) -> u32) -> Self {
        self.map(|element| element.exchange(exchange))
    }
}

impl<D: Dimensions> Block<'_, D> {
    /// Lane n gets the value of lane n + `delta` of its warp; the last `delta` lanes keep their own
    /// (`shfl.sync.down`, `__shfl_down_sync`).
    ///
    /// # Panics
    /// If `delta` is not below 32, or the block is not made of whole warps.
    #[inline(always)]
    pub fn shuffle_down<T: ShuffleElement>(&mut self, value: &Private<T>, delta: usize) -> Private<T> {
        self.assert_lane(delta);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
            // whole warps (asserted above).
            own.exchange(&|word| unsafe { warp::shuffle_down(word, delta as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| {
            if thread % WARP + delta < WARP {
                thread + delta
            } else {
                thread
            }
        })
    }

    /// Lane n gets the value of lane n - `delta` of its warp; the first `delta` lanes keep their
    /// own (`shfl.sync.up`, `__shfl_up_sync`).
    ///
    /// # Panics
    /// As [`shuffle_down`](Self::shuffle_down).
    #[inline(always)]
    pub fn shuffle_up<T: ShuffleElement>(&mut self, value: &Private<T>, delta: usize) -> Private<T> {
        self.assert_lane(delta);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
            // whole warps (asserted above).
            own.exchange(&|word| unsafe { warp::shuffle_up(word, delta as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| {
            if thread % WARP >= delta {
                thread - delta
            } else {
                thread
            }
        })
    }

    /// Lane n gets the value of lane n ^ `mask` of its warp (`shfl.sync.bfly`, `__shfl_xor_sync`).
    ///
    /// # Panics
    /// If `mask` is not below 32, or the block is not made of whole warps.
    #[inline(always)]
    pub fn shuffle_xor<T: ShuffleElement>(&mut self, value: &Private<T>, mask: usize) -> Private<T> {
        self.assert_lane(mask);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
            // whole warps (asserted above).
            own.exchange(&|word| unsafe { warp::shuffle_xor(word, mask as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| thread ^ mask)
    }

    /// Each lane gets the value of lane `lane` of its warp (`shfl.sync.idx`, `__shfl_sync`).
    ///
    /// # Panics
    /// If `lane` is not below 32, or the block is not made of whole warps.
    #[inline(always)]
    pub fn shuffle_from<T: ShuffleElement>(&mut self, value: &Private<T>, lane: usize) -> Private<T> {
        self.assert_lane(lane);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
            // whole warps (asserted above).
            own.exchange(&|word| unsafe { warp::shuffle_idx(word, lane as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| thread / WARP * WARP + lane)
    }

    /// Each lane gets the value of lane `from` of its warp, modulo 32; `from` may differ by lane
    /// (`shfl.sync.idx`, `__shfl_sync`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    ///
    /// ```standalone_crate
    /// use device_std::prelude::*;
    /// use device_std::Sum;
    /// # device_std::kernel_module!(concat!(
    /// #     env!("CARGO_MANIFEST_DIR"),
    /// #     "/../cuda-rt/tests/conformance/kernels.ptx"
    /// # ));
    /// # cuda_rt::streams! { pub Compute; }
    ///
    /// /// Values of other lanes of the warp, and what holds for all of them.
    /// #[kernel(block = 64)]
    /// fn exchange(mut block: Block, input: &[u32], output: PerThread<[u32; 4]>) {
    ///     let value = block.map(|lane| input[lane.position()]);
    ///     let before = block.shuffle_up(&value, 1); // of the lane before; the first has its own
    ///     let partner = block.shuffle_xor(&value, 1); // pairs change places
    ///     let from = block.map(|lane| (31 - lane.lane()) as u32);
    ///     let mirrored = block.shuffle(&value, &from);
    ///
    ///     let odd = block.ballot(|lane| value.get(lane) % 2 == 1); // a bit for each lane
    ///     let any = block.warp_any(|lane| value.get(lane) > 40);
    ///     let all = block.warp_all(|lane| value.get(lane) < 64);
    ///     let parity = block.map(|lane| value.get(lane) % 2);
    ///     let same = block.warp_match(&parity); // the lanes with this lane's value
    ///     let up_to = block.warp_inclusive_scan::<Sum, _>(&value);
    ///     let below = block.warp_exclusive_scan::<Sum, _>(&value);
    ///
    ///     let mut result = block.map_shared(|thread| {
    ///         let votes = u32::from(any.get(thread)) + 2 * u32::from(all.get(thread));
    ///         [before.get(thread), partner.get(thread), mirrored.get(thread), votes]
    ///     });
    ///     block.threads_with(&mut result, |thread, own| {
    ///         assert_eq!(up_to.get(thread) - below.get(thread), value.get(thread));
    ///         let odd = odd.get(thread);
    ///         assert!(same.get(thread) == odd || same.get(thread) == !odd);
    ///         if let Some(index) = thread.index_in_launch() {
    ///             output.set(index, *own);
    ///         }
    ///     });
    /// }
    ///
    /// # fn main() -> cuda_rt::Result<()> {
    /// # cuda_rt::Device::simulated(Default::default(), |gpu| {
    /// # let compute = gpu.stream::<Compute<_>>()?;
    /// let input = compute.alloc_from_slice(&(0..64).collect::<Vec<u32>>())?;
    /// let mut output = compute.alloc_zeroed::<[u32; 4]>(64)?;
    /// exchange(&compute, cuda_rt::Grid1::covering(64), &input, &mut output)?;
    /// let output = compute.copy_to_vec(&output)?;
    /// assert_eq!(output[5], [4, 4, 26, 2]);
    /// assert_eq!(output[32], [32, 33, 63, 3]); // the second warp
    /// # Ok(())
    /// # })?
    /// # }
    /// ```
    #[inline(always)]
    pub fn shuffle<T: ShuffleElement>(&mut self, value: &Private<T>, from: &Private<u32>) -> Private<T> {
        self.assert_whole_warps();
        #[cfg(target_arch = "nvptx64")]
        return {
            let from = from.of_this_thread();
            value.exchange(|own| {
                // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made
                // of whole warps (asserted above).
                own.exchange(&|word| unsafe { warp::shuffle_idx(word, from) })
            })
        };
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| thread / WARP * WARP + *from.of(thread) as usize % WARP)
    }

    #[inline(always)]
    pub(super) fn assert_whole_warps(&self) {
        assert!(
            self.size().is_multiple_of(WARP),
            "an exchange between lanes needs blocks of whole warps of 32 threads"
        );
    }

    #[inline(always)]
    fn assert_lane(&self, lane: usize) {
        self.assert_whole_warps();
        assert!(lane < WARP, "a shuffle stays inside a warp of 32 lanes");
    }
}
