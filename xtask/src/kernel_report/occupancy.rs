//! How many warps a multiprocessor holds at a time, from what `ptxas` says of a kernel.

/// The warps of a multiprocessor, for blocks of `threads` threads; 0 if no block fits.
///
/// A multiprocessor of compute capability 8.0 and 9.0 has 65,536 registers, 64 warps and 32 blocks.
/// A warp takes registers by 256, in one of the four parts of a multiprocessor. A block takes
/// shared memory by 128 bytes, and 1 KiB more for the system (CUDA C++ Programming Guide, "Compute
/// Capabilities", and the occupancy calculator of Nsight Compute).
pub(super) fn warps(architecture: &str, threads: u32, registers: u32, shared_bytes: u32) -> u32 {
    let shared_of_all = match architecture {
        "sm_80" => 164 << 10,
        _ => 228 << 10,
    };
    let warps = threads.div_ceil(32).max(1);
    let of_a_warp = (registers * 32).next_multiple_of(256).max(256);
    let by_registers = 65_536 / 4 / of_a_warp * 4 / warps;
    let by_shared = shared_of_all / (shared_bytes.next_multiple_of(128) + (1 << 10));
    let by_warps = 64 / warps;
    by_registers.min(by_shared).min(by_warps).min(32) * warps
}

#[cfg(test)]
mod tests {
    use super::warps;

    #[test]
    fn registers_leave_room_for_whole_blocks() {
        // Figures of CUDA's occupancy calculator for blocks of 256 threads, compute capability 9.0.
        for (registers, expected) in [
            (16, 64),
            (32, 64),
            (33, 48),
            (40, 48),
            (64, 32),
            (96, 16),
            (255, 8),
        ] {
            let warps = warps("sm_90", 256, registers, 0);
            assert_eq!(warps, expected, "{registers} registers");
        }
    }

    #[test]
    fn shared_memory_leaves_room_for_whole_blocks() {
        for (architecture, kib, expected) in [
            ("sm_80", 1, 64),
            ("sm_80", 100, 8),
            ("sm_80", 163, 8),
            ("sm_80", 164, 0),
            ("sm_90", 27, 64),
            ("sm_90", 28, 56),
            ("sm_90", 100, 16),
            ("sm_90", 227, 8),
            ("sm_90", 228, 0),
        ] {
            let warps = warps(architecture, 256, 32, kib << 10);
            assert_eq!(warps, expected, "{kib} KiB, {architecture}");
        }
    }

    #[test]
    fn blocks_and_warps_are_limited() {
        assert_eq!(warps("sm_90", 32, 16, 0), 32, "32 blocks of one warp");
        assert_eq!(warps("sm_90", 33, 16, 0), 64, "two warps");
        assert_eq!(warps("sm_90", 64, 33, 0), 48, "two warps of 40 registers");
        assert_eq!(warps("sm_90", 1024, 32, 0), 64, "two blocks");
        assert_eq!(warps("sm_90", 1024, 33, 0), 32, "one block");
        assert_eq!(warps("sm_90", 1024, 65, 0), 0, "more registers than there are");
    }
}
