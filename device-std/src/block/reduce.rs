//! Reductions and scans, of warps and of blocks.
//!
//! A warp's lanes exchange values by shuffles in a butterfly, or by one `redux.sync` if the
//! hardware has the operation. Across warps, each thread folds the results of the warps from shared
//! memory, one after the other. The simulated device combines values in the same order, so that
//! floats are equal to the bit.

use super::operator::Operator;
use super::phases::Block;
use super::private::Private;
use super::shared::BlockUninit;
use super::shuffle::ShuffleElement;
use super::thread::{Dimensions, WARP};

impl<'k, D: Dimensions> Block<'k, D> {
    /// Every lane gets the values of its whole warp, combined (`redux.sync` for 32-bit integers,
    /// five `shfl.sync.bfly` for others).
    ///
    /// Lanes are combined in pairs, pairs in fours, and so on; earlier lanes stand on the left. The
    /// simulated device gives the same result, to the bit.
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_reduce<O: Operator<T>, T: ShuffleElement>(&mut self, value: &Private<T>) -> Private<T> {
        self.assert_whole_warps();
        #[cfg(target_arch = "nvptx64")]
        if let Some(kind) = O::REDUX.kind() {
            return value.exchange(|own| redux(kind, own));
        }
        let mut values = value.clone();
        let mut distance = 1;
        while distance < WARP {
            let others = self.shuffle_xor(&values, distance);
            self.run(|thread| {
                let (own, other) = (values.slot(thread.index()), others.get(thread));
                *own = if O::IS_COMMUTATIVE || thread.lane() & distance == 0 {
                    O::combine(*own, other)
                } else {
                    O::combine(other, *own)
                };
            });
            distance *= 2;
        }
        values
    }

    /// Lane n gets the values of lanes 0 to n of its warp, combined (five `shfl.sync.up`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_inclusive_scan<O: Operator<T>, T: ShuffleElement>(
        &mut self,
        value: &Private<T>,
    ) -> Private<T> {
        let mut values = value.clone();
        let mut distance = 1;
        while distance < WARP {
            let earlier = self.shuffle_up(&values, distance);
            self.run(|thread| {
                if thread.lane() >= distance {
                    let own = values.slot(thread.index());
                    *own = O::combine(earlier.get(thread), *own);
                }
            });
            distance *= 2;
        }
        values
    }

    /// Lane n gets the values of the lanes before it in its warp, combined; lane 0 gets the
    /// identity (six `shfl.sync.up`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_exclusive_scan<O: Operator<T>, T: ShuffleElement>(
        &mut self,
        value: &Private<T>,
    ) -> Private<T> {
        let inclusive = self.warp_inclusive_scan::<O, T>(value);
        let mut values = self.shuffle_up(&inclusive, 1);
        self.run(|thread| {
            if thread.lane() == 0 {
                *values.slot(thread.index()) = O::IDENTITY;
            }
        });
        values
    }

    /// The values of all threads, combined: a value on which all threads agree, so block-level code
    /// may branch on it.
    ///
    /// `scratch` has room for one value for each warp, and can be used again at once. The call has
    /// two barriers.
    ///
    /// All threads agree for any operator, because each thread folds the same values from shared
    /// memory in the same order.
    ///
    /// ```
    /// # use device_std::prelude::*;
    /// use device_std::Sum;
    ///
    /// fn mean(
    ///     mut block: Block,
    ///     mut scratch: BlockUninit<f32, 8>,
    ///     input: &[f32],
    ///     mut means: PerBlock<f32>,
    /// ) {
    ///     let values = block.map(|lane| input.get(lane.position()).copied().unwrap_or(0.0));
    ///     let total = block.reduce::<Sum, _, 8>(&mut scratch, &values);
    ///     means.set(&block, total / 256.0);
    /// }
    /// ```
    ///
    /// # Panics
    /// If the block is not made of whole warps, or has more than `N` of them.
    #[inline(always)]
    pub fn reduce<O: Operator<T>, T: ShuffleElement, const N: usize>(
        &mut self,
        scratch: &mut BlockUninit<'_, T, N>,
        value: &Private<T>,
    ) -> T {
        let of_warp = self.warp_reduce::<O, T>(value);
        let total = self.of_warps::<O, T, N>(scratch, &of_warp, 0, |_| ());
        self.barrier();
        total
    }

    /// Thread n gets the values of threads 0 to n, combined. The second result combines the values
    /// of all threads; all threads agree on it.
    ///
    /// `scratch` has room for one value for each warp, and can be used again at once. The call has
    /// two barriers.
    ///
    /// # Panics
    /// As [`reduce`](Self::reduce).
    #[inline(always)]
    pub fn inclusive_scan<O: Operator<T>, T: ShuffleElement, const N: usize>(
        &mut self,
        scratch: &mut BlockUninit<'_, T, N>,
        value: &Private<T>,
    ) -> (Private<T>, T) {
        let mut values = self.warp_inclusive_scan::<O, T>(value);
        let of_warp = values.clone();
        let total = self.of_warps::<O, T, N>(scratch, &of_warp, WARP - 1, |(thread, _, before)| {
            let own = values.slot(thread);
            *own = O::combine(before, *own);
        });
        self.barrier();
        (values, total)
    }

    /// Thread n gets the values of the threads before it, combined; thread 0 gets the identity. The
    /// second result combines the values of all threads; all threads agree on it.
    ///
    /// `scratch` has room for one value for each warp, and can be used again at once. The call has
    /// two barriers.
    ///
    /// # Panics
    /// As [`reduce`](Self::reduce).
    #[inline(always)]
    pub fn exclusive_scan<O: Operator<T>, T: ShuffleElement, const N: usize>(
        &mut self,
        scratch: &mut BlockUninit<'_, T, N>,
        value: &Private<T>,
    ) -> (Private<T>, T) {
        let inclusive = self.warp_inclusive_scan::<O, T>(value);
        let mut values = self.shuffle_up(&inclusive, 1);
        self.run(|thread| {
            if thread.index() == 0 {
                *values.slot(0) = O::IDENTITY;
            }
        });
        let total = self.of_warps::<O, T, N>(scratch, &inclusive, WARP - 1, |(thread, lane, before)| {
            let own = values.slot(thread);
            // A shuffle leaves the first lane its own value, which does not belong to the result.
            *own = if lane == 0 {
                before
            } else {
                O::combine(before, *own)
            };
        });
        self.barrier();
        (values, total)
    }

    /// Combines one value of each warp: the value of lane `lane`. In each thread outside the first
    /// warp, it calls `with_earlier` with (thread, lane, the combined values of the earlier warps).
    /// It returns the combined values of all warps. A barrier must follow before `scratch` is used
    /// again.
    #[inline(always)]
    fn of_warps<O: Operator<T>, T: ShuffleElement, const N: usize>(
        &mut self,
        scratch: &mut BlockUninit<'_, T, N>,
        value: &Private<T>,
        lane: usize,
        mut with_earlier: impl FnMut((usize, usize, T)),
    ) -> T {
        let warps = self.size() / WARP;
        assert!(
            warps <= N,
            "the scratch memory of a reduction has less than one element for each warp"
        );
        scratch.open_as_scratch();
        self.run(|thread| {
            if thread.lane() == lane {
                // SAFETY: one lane of each warp writes its warp's own element, and nothing reads
                // before the barrier.
                unsafe { scratch.write(thread.warp(), value.get(thread)) };
            }
        });
        self.barrier();
        // SAFETY: each of the `warps` elements was written before the barrier, and no one writes
        // before the barrier that ends the reduction.
        let of_warp = |warp: usize| unsafe { scratch.read(warp) };
        let next = |before: T, warp: usize| O::combine(before, of_warp(warp));
        self.run(|thread| {
            if thread.warp() > 0 {
                let before = (1..thread.warp()).fold(of_warp(0), next);
                with_earlier((thread.index(), thread.lane(), before));
            }
        });
        (1..warps).fold(of_warp(0), next)
    }
}

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn redux<T: ShuffleElement>(kind: super::operator::ReduxKind, value: T) -> T {
    use super::operator::ReduxKind as R;
    use crate::device::warp;
    let (word, signed): (u32, i32) = (bytemuck::cast(value), bytemuck::cast(value));
    // SAFETY, of each: BLOCK-2: block-level code runs alike in every lane, and the block is made of
    // whole warps (asserted by `warp_reduce`).
    let result = match kind {
        R::Add => unsafe { warp::reduce_add(word) },
        R::UnsignedMin => unsafe { warp::reduce_umin(word) },
        R::UnsignedMax => unsafe { warp::reduce_umax(word) },
        R::SignedMin => (unsafe { warp::reduce_min(signed) }) as u32,
        R::SignedMax => (unsafe { warp::reduce_max(signed) }) as u32,
        R::And => unsafe { warp::reduce_and(word) },
        R::Or => unsafe { warp::reduce_or(word) },
        R::Xor => unsafe { warp::reduce_xor(word) },
    };
    bytemuck::cast(result)
}
