//! Exchange between the lanes of a warp.

unsafe extern "C" {
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_xor(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
}

const ALL_LANES: u32 = u32::MAX;
const WHOLE_WARP: u32 = 31;

/// `__shfl_down_sync` over the whole warp.
///
/// # Safety
/// All 32 lanes exist, and execute this same call.
#[inline(always)]
pub(crate) unsafe fn shuffle_down(value: u32, delta: u32) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { shfl_down(ALL_LANES, value, delta, WHOLE_WARP) }
}

/// `__shfl_xor_sync` over the whole warp.
///
/// # Safety
/// All 32 lanes exist, and execute this same call.
#[inline(always)]
pub(crate) unsafe fn shuffle_xor(value: u32, lane_mask: u32) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { shfl_xor(ALL_LANES, value, lane_mask, WHOLE_WARP) }
}
