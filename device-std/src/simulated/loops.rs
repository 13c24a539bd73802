//! Loops over threads and blocks. Each loop exists twice: for any CPU, and for a CPU with AVX2 and
//! FMA. The choice is made at run time. Without FMA, `mul_add` is a library call, and a bilateral
//! filter takes ten times as long. The closures are inlined into the loops, so they are compiled
//! for both CPUs.

use super::arguments::SimulatedLaunch;
use crate::index::{Index1, Index2, Index3};

macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident, $plain:ident, $wide:ident, ($($argument:ident: $type:ty),*), $item:ty) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide($($argument: $type,)* f: &impl Fn($item)) {
            $plain($($argument,)* f);
        }

        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($argument: $type,)* f: impl Fn($item)) {
            #[cfg(target_arch = "x86_64")]
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                // SAFETY: the CPU has both features.
                unsafe { $wide($($argument,)* &f) };
                return;
            }
            $plain($($argument,)* &f);
        }
    };
}

#[inline(always)]
fn line(launch: &SimulatedLaunch, f: &impl Fn(Index1<'_>)) {
    let extent = launch.extent;
    for x in 0..extent.x {
        // SAFETY: INDEX-1: the loop runs thread x now, and no other thread of the launch has this
        // x.
        f(unsafe { Index1::new(x) });
    }
}

#[inline(always)]
fn plane(launch: &SimulatedLaunch, f: &impl Fn(Index2<'_>)) {
    let (width, height) = launch.extent.plane();
    for y in 0..height {
        for x in 0..width {
            // SAFETY: INDEX-1: the loop runs thread (x, y) now, and no other thread of the launch
            // has this position.
            f(unsafe { Index2::new(x, y, width) });
        }
    }
}

#[inline(always)]
fn volume(launch: &SimulatedLaunch, f: &impl Fn(Index3<'_>)) {
    let extent = launch.extent;
    for z in 0..extent.z {
        for y in 0..extent.y {
            for x in 0..extent.x {
                // SAFETY: INDEX-1: the loop runs thread (x, y, z) now, and no other thread of the
                // launch has this position.
                f(unsafe { Index3::new(x, y, z, extent) });
            }
        }
    }
}

#[inline(always)]
fn blocks(launch: &SimulatedLaunch, f: &impl Fn([u32; 2])) {
    for y in 0..launch.grid[1] {
        for x in 0..launch.grid[0] {
            f([x, y]);
        }
    }
}

dispatched!(
    /// Runs `f` for each thread of a one-dimensional launch.
    each_index1, line, line_wide, (launch: &SimulatedLaunch), Index1<'_>
);
dispatched!(
    /// Runs `f` for each thread of a two-dimensional launch, row by row.
    each_index2, plane, plane_wide, (launch: &SimulatedLaunch), Index2<'_>
);
dispatched!(
    /// Runs `f` for each thread of a three-dimensional launch.
    each_index3, volume, volume_wide, (launch: &SimulatedLaunch), Index3<'_>
);
dispatched!(
    /// Runs `f` for each block of a grid.
    each_block, blocks, blocks_wide, (launch: &SimulatedLaunch), [u32; 2]
);
