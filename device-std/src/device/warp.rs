//! Exchanges between the lanes of a warp.
//!
//! The functions call LLVM's own operations, which LLVM treats as convergent. LLVM may copy inline
//! assembly into branches.

const ALL_LANES: u32 = u32::MAX;
const WHOLE_WARP: u32 = 31;

mod exchanges {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
        pub(super) fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
        pub(super) fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
        pub(super) fn shfl_xor(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        pub(super) fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.vote.any.sync"]
        pub(super) fn vote_any(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.all.sync"]
        pub(super) fn vote_all(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub(super) fn vote_ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i32"]
        pub(super) fn match_any_32(mask: u32, value: u32) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i64"]
        pub(super) fn match_any_64(mask: u32, value: u64) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.add"]
        pub(super) fn redux_add(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umin"]
        pub(super) fn redux_umin(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umax"]
        pub(super) fn redux_umax(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.min"]
        pub(super) fn redux_min(value: i32, mask: u32) -> i32;
        #[link_name = "llvm.nvvm.redux.sync.max"]
        pub(super) fn redux_max(value: i32, mask: u32) -> i32;
        #[link_name = "llvm.nvvm.redux.sync.and"]
        pub(super) fn redux_and(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.or"]
        pub(super) fn redux_or(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.xor"]
        pub(super) fn redux_xor(value: u32, mask: u32) -> u32;
    }
}

macro_rules! whole_warp {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes exist, and execute this same call.
        #[inline(always)]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller says that all 32 lanes exist and execute this call, and the mask
            // names all lanes.
            unsafe { $call }
        }
    )* };
}

whole_warp! {
    /// `__shfl_down_sync`
    shuffle_down(value: u32, delta: u32) -> u32 = exchanges::shfl_down(ALL_LANES, value, delta, WHOLE_WARP);
    /// `__shfl_up_sync`
    shuffle_up(value: u32, delta: u32) -> u32 = exchanges::shfl_up(ALL_LANES, value, delta, 0);
    /// `__shfl_xor_sync`
    shuffle_xor(value: u32, lane_mask: u32) -> u32 = exchanges::shfl_xor(ALL_LANES, value, lane_mask, WHOLE_WARP);
    /// `__shfl_sync`; the hardware takes `lane` modulo 32.
    shuffle_idx(value: u32, lane: u32) -> u32 = exchanges::shfl_idx(ALL_LANES, value, lane, WHOLE_WARP);
    /// `__any_sync`
    any(predicate: bool) -> bool = exchanges::vote_any(ALL_LANES, predicate);
    /// `__all_sync`
    all(predicate: bool) -> bool = exchanges::vote_all(ALL_LANES, predicate);
    /// `__ballot_sync`
    ballot(predicate: bool) -> u32 = exchanges::vote_ballot(ALL_LANES, predicate);
    /// `__match_any_sync` of 32 bits
    match_any_32(value: u32) -> u32 = exchanges::match_any_32(ALL_LANES, value);
    /// `__match_any_sync` of 64 bits
    match_any_64(value: u64) -> u32 = exchanges::match_any_64(ALL_LANES, value);
    /// `__reduce_add_sync`
    reduce_add(value: u32) -> u32 = exchanges::redux_add(value, ALL_LANES);
    /// `__reduce_min_sync` of unsigned integers
    reduce_umin(value: u32) -> u32 = exchanges::redux_umin(value, ALL_LANES);
    /// `__reduce_max_sync` of unsigned integers
    reduce_umax(value: u32) -> u32 = exchanges::redux_umax(value, ALL_LANES);
    /// `__reduce_min_sync` of signed integers
    reduce_min(value: i32) -> i32 = exchanges::redux_min(value, ALL_LANES);
    /// `__reduce_max_sync` of signed integers
    reduce_max(value: i32) -> i32 = exchanges::redux_max(value, ALL_LANES);
    /// `__reduce_and_sync`
    reduce_and(value: u32) -> u32 = exchanges::redux_and(value, ALL_LANES);
    /// `__reduce_or_sync`
    reduce_or(value: u32) -> u32 = exchanges::redux_or(value, ALL_LANES);
    /// `__reduce_xor_sync`
    reduce_xor(value: u32) -> u32 = exchanges::redux_xor(value, ALL_LANES);
}
