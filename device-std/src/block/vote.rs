//! Votes of warps and of blocks. The outcome of a warp's vote differs by warp, so it is a
//! [`Private`]. All threads share the outcome of a block's vote.

use super::phase_safe::PhaseSafe;
use super::phases::Block;
use super::private::Private;
use super::shuffle::ShuffleElement;
#[cfg(not(target_arch = "nvptx64"))]
use super::thread::WARP;
use super::thread::{Dimensions, Lane, Thread};
#[cfg(target_arch = "nvptx64")]
use crate::device::{registers, warp};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for i32 {}
    impl Sealed for u64 {}
    impl Sealed for i64 {}
}

/// An integer that [`Block::warp_match`] compares: `u32`, `i32`, `u64`, `i64`.
pub trait MatchElement: ShuffleElement + Eq + sealed::Sealed {}
impl<T: ShuffleElement + Eq + sealed::Sealed> MatchElement for T {}

impl<'k, D: Dimensions> Block<'k, D> {
    /// Whether `f` holds in any lane of the warp (`vote.sync.any`, `__any_sync`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_any<F: Fn(&Lane<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> Private<bool> {
        let holds = self.voted(f);
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
        // whole warps (asserted above).
        return holds.exchange(|own| unsafe { warp::any(own) });
        #[cfg(not(target_arch = "nvptx64"))]
        holds.by_warp(|warp| [warp.contains(&true); WARP])
    }

    /// Whether `f` holds in all lanes of the warp (`vote.sync.all`, `__all_sync`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_all<F: Fn(&Lane<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> Private<bool> {
        let holds = self.voted(f);
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
        // whole warps (asserted above).
        return holds.exchange(|own| unsafe { warp::all(own) });
        #[cfg(not(target_arch = "nvptx64"))]
        holds.by_warp(|warp| [!warp.contains(&false); WARP])
    }

    /// The lanes of the warp in which `f` holds; bit n stands for lane n (`vote.sync.ballot`,
    /// `__ballot_sync`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn ballot<F: Fn(&Lane<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> Private<u32> {
        let holds = self.voted(f);
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made of
        // whole warps (asserted above).
        return Private::new(unsafe { warp::ballot(holds.of_this_thread()) });
        #[cfg(not(target_arch = "nvptx64"))]
        holds.by_warp(|warp| {
            let bits = |bits, (lane, holds): (usize, &bool)| bits | u32::from(*holds) << lane;
            [warp.iter().enumerate().fold(0, bits); WARP]
        })
    }

    /// The lanes of the warp whose value equals the value of this lane; bit n stands for lane n
    /// (`match.any.sync`, `__match_any_sync`).
    ///
    /// # Panics
    /// If the block is not made of whole warps.
    #[inline(always)]
    pub fn warp_match<T: MatchElement>(&mut self, value: &Private<T>) -> Private<u32> {
        self.assert_whole_warps();
        #[cfg(target_arch = "nvptx64")]
        return {
            let own = value.of_this_thread();
            Private::new(if size_of::<T>() == 4 {
                // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made
                // of whole warps (asserted above).
                unsafe { warp::match_any_32(bytemuck::cast(own)) }
            } else {
                // SAFETY: BLOCK-2: block-level code runs alike in every lane, and the block is made
                // of whole warps (asserted above).
                unsafe { warp::match_any_64(bytemuck::cast(own)) }
            })
        };
        #[cfg(not(target_arch = "nvptx64"))]
        value.by_warp(|warp| {
            core::array::from_fn(|lane| {
                let same =
                    |bits, (other, value): (usize, &T)| bits | u32::from(*value == warp[lane]) << other;
                warp.iter().enumerate().fold(0, same)
            })
        })
    }

    /// Whether `f` holds in any thread of the block: a value on which all threads agree. Ends in a
    /// barrier (`barrier.red.or`, `__syncthreads_or`).
    #[inline(always)]
    pub fn any<F: Fn(&Thread<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> bool {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: only block-level code calls this, so every thread of the block executes
        // it.
        return unsafe { registers::barrier_or(self.collect(f).of_this_thread()) };
        #[cfg(not(target_arch = "nvptx64"))]
        self.collect(f).all_threads().contains(&true)
    }

    /// Whether `f` holds in all threads of the block: a value on which all threads agree. Ends in a
    /// barrier (`barrier.red.and`, `__syncthreads_and`).
    #[inline(always)]
    pub fn all<F: Fn(&Thread<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> bool {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: only block-level code calls this, so every thread of the block executes
        // it.
        return unsafe { registers::barrier_and(self.collect(f).of_this_thread()) };
        #[cfg(not(target_arch = "nvptx64"))]
        !self.collect(f).all_threads().contains(&false)
    }

    /// The number of threads of the block in which `f` holds: a value on which all threads agree.
    /// Ends in a barrier (`barrier.red.popc`, `__syncthreads_count`).
    #[inline(always)]
    pub fn count<F: Fn(&Thread<'k, D>) -> bool + PhaseSafe>(&mut self, f: F) -> usize {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: only block-level code calls this, so every thread of the block executes
        // it.
        return (unsafe { registers::barrier_count(self.collect(f).of_this_thread()) }) as usize;
        #[cfg(not(target_arch = "nvptx64"))]
        self.collect(f)
            .all_threads()
            .iter()
            .filter(|holds| **holds)
            .count()
    }

    #[inline(always)]
    fn voted<F: Fn(&Lane<'k, D>) -> bool>(&self, f: F) -> Private<bool> {
        self.assert_whole_warps();
        self.collect(|thread| f(thread))
    }
}
