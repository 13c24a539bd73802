//! The library that kernels are written against: indices, outputs, blocks that work in phases, and
//! math.
//!
//! The same source is compiled twice. For `nvptx64-nvidia-cuda` it becomes PTX. On the host it
//! becomes a plain function that runs the whole launch on the CPU; the simulated device executes
//! this function.
//!
//! ```
//! use device_std::prelude::*;
//!
//! /// `#[kernel]` turns a function like this one into a typed launch; the body stays safe code.
//! fn scale(i: Index1, input: &[f32], mut output: PerThread<f32>, factor: f32) {
//!     if let Some(out) = output.get_mut(i) {
//!         *out = input[i.get()] * factor;
//!     }
//! }
//! ```
//!
//! # What is there
//!
//! Every function is safe unless the list says otherwise. Each one also runs on the simulated
//! device, and `tests/kernels` compares it with plain Rust. A cost counts the instructions of one
//! thread, without the loads of its operands. Where a function takes several types, the cost is for
//! 32-bit values.
//!
//! - **where**: [`Index1`], [`Index2`], [`Index3`]. PTX: `%ctaid`, `%ntid`, `%tid`. Cost: a
//!   multiply-add and a comparison for each dimension.
//! - **own element**: [`PerThread::get_mut`], [`get`](PerThread::get), [`set`](PerThread::set).
//!   PTX: `ld.global`, `st.global`. Cost: a comparison.
//! - **what a kernel returns**: `-> T`, `-> [T; N]`, of a thread or a block; `-> Private<T>` of a
//!   block's threads ([below](#kernels-that-return-their-element)). PTX: `st.global`,
//!   `st.global.v4`. Cost: a comparison.
//! - **own rows, own chunk**: [`PerThreadColumn`], [`PerThreadChunk`], [`Chunks::chunk_or`]. PTX:
//!   `ld.global.nc.v4`, `st.global.v4`. Cost: two comparisons, and one of the alignment, for 16
//!   bytes.
//! - **chunks without tests of the alignment**: [`Chunks::aligned_chunks`] for inputs. PTX:
//!   `ld.global.nc.v4`. Cost: a comparison for each chunk.
//! - **own chunks of a matrix**: [`PerThreadTile`]. PTX: `st.global.v4`. Cost: four comparisons for
//!   all chunks of a thread.
//! - **own elements of a row**: [`PerRow`], for a row of each warp or block. PTX: `st.global.v4`.
//!   Cost: two comparisons for 16 bytes.
//! - **block's element**: [`PerBlock::set`], [`set_from_first`](PerBlock::set_from_first). PTX:
//!   `st.global`. Cost: a comparison.
//! - **phases**: [`Block::threads`], [`map_shared`](Block::map_shared),
//!   [`threads_with`](Block::threads_with). PTX: `bar.sync`. Cost: a barrier.
//! - **no barrier**: [`Block::map`], [`update`](Block::update). Cost: none.
//! - **shared memory**: [`BlockUninit::init`], [`BlockUninit::init_strided`],
//!   [`BlockShared::view`], [`each_mut`](BlockShared::each_mut),
//!   [`split_at_mut`](BlockShared::split_at_mut). PTX: `ld.shared`, `st.shared`, `bar.sync`. Cost:
//!   a barrier for each phase. [`init_strided`](BlockUninit::init_strided) and [`View::read`] move
//!   16 bytes at once.
//! - **shuffles**: [`Block::shuffle_down`], [`shuffle_up`](Block::shuffle_up),
//!   [`shuffle_xor`](Block::shuffle_xor), [`shuffle_from`](Block::shuffle_from),
//!   [`shuffle`](Block::shuffle). PTX: `shfl.sync`. Cost: one for each 32 bits.
//! - **votes of a warp**: [`Block::warp_any`], [`warp_all`](Block::warp_all),
//!   [`ballot`](Block::ballot), [`warp_match`](Block::warp_match). PTX: `vote.sync`,
//!   `match.any.sync`. Cost: one.
//! - **votes of a block**: [`Block::any`], [`all`](Block::all), [`count`](Block::count). PTX:
//!   `barrier.red`. Cost: a barrier.
//! - **reductions of a warp**: [`Block::warp_reduce`]. PTX: `redux.sync` for `u32` and `i32`;
//!   `shfl.sync.bfly` for other types. Cost: 1 for `u32` and `i32`; 5 exchanges and 5 operations
//!   for other types.
//! - **scans of a warp**: [`Block::warp_inclusive_scan`],
//!   [`warp_exclusive_scan`](Block::warp_exclusive_scan). PTX: `shfl.sync.up`. Cost: 5 or 6
//!   exchanges and 5 operations.
//! - **reductions of a block**: [`Block::reduce`]. PTX: a warp's instructions, and `bar.sync`.
//!   Cost: a warp's reduction, 2 barriers, and for each warp a load from shared memory and an
//!   operation.
//! - **scans of a block**: [`Block::inclusive_scan`], [`exclusive_scan`](Block::exclusive_scan).
//!   PTX: a warp's instructions, and `bar.sync`. Cost: a warp's scan, 2 barriers, and for each warp
//!   two loads and two operations.
//! - **scans of the whole launch**: [`LookBack::scan`], with a [`PerTile`] output. PTX:
//!   `ld.relaxed.gpu`, `st.relaxed.gpu`, and a block's reductions. Cost: an atomic addition, 4
//!   barriers, and a block's reduction for each 256 tiles that are not finished.
//! - **operators**: [`Sum`], [`Product`], [`Min`], [`Max`], [`And`], [`Or`], [`Xor`], [`Each`],
//!   your own [`Operator`]
//! - **atomics, device**: [`Atomic`]: `fetch_add`, `fetch_min`, `fetch_max`, `fetch_and`,
//!   `fetch_or`, `fetch_xor`, `swap`, `compare_exchange`, `load`, `store`. PTX: `atom.global`
//!   (relaxed, `.gpu`), `ld.relaxed.gpu`, `st.relaxed.gpu`. Cost: one, and a comparison.
//! - **atomics, system**: the same methods, through [`Atomic::system`]. PTX: `atom.relaxed.sys`.
//!   Cost: as above.
//! - **atomics, block**: the same methods, through [`Atomic::block`], which is **unsafe**: no other
//!   block may use the elements. PTX: `atom.relaxed.cta`. Cost: as above.
//! - **atomics, shared**: the same methods, through [`BlockShared::atomic`]. PTX: `atom.shared`.
//!   Cost: as above.
//! - **fences**: [`fence::block`], [`fence::device`], [`fence::system`]. PTX: `fence.acq_rel`.
//!   Cost: waits for the thread's own writes.
//! - **exact math**: [`Float`]: `mul_add`, `sqrt`, `floor`, `ceil`, `trunc`. PTX: `fma.rn`,
//!   `sqrt.rn`, `cvt.rmi` … Cost: 1; `sqrt` about 10.
//! - **math, same bits everywhere**: functions of the module [`accurate`], which are called as
//!   `accurate::sin(x)`: `exp`, `exp2`, `ln`, `log2`, `sin`, `cos`, `tanh`, `pow`, `rem`,
//!   `rem_euclid`. PTX: no approximate instruction. Cost: 20 to 300.
//! - **fast math**: functions of the module [`fast`], which are called as `fast::sin(x)`: the same
//!   functions without the remainders, and `sqrt`, `rsqrt`, `rcp`, `div`. PTX: `ex2.approx`,
//!   `lg2.approx`, … Cost: 1 to 5.
//! - **16-bit floats**: `Half`, `F16x2`, `Bf16x2` (feature `half`). PTX: `cvt.rn.f16.f32`,
//!   `fma.rn.f16x2`, … Cost: 1.
//! - **random numbers**: [`Random`], [`philox4x32`]. PTX: `mul.hi`, `xor`. Cost: about 70 for four
//!   words.
//! - **images**: [`Image::clamped`]. PTX: `min`, `max`, `ld.global.nc`. Cost: 4.
//! - **loops written out**: `unroll!` (feature `macros`), so that arrays stay in registers. Cost:
//!   none.
//! - **debugging**: [`print!`]. PTX: `call vprintf`. Cost: local memory, and a lock: not for
//!   kernels whose time is measured.
//!
//! # What a safe kernel cannot do
//!
//! Each attempt, and what stops it:
//!
//! - **forge an index, or write another thread's element**: an index ([`Index1`], [`Index2`],
//!   [`Index3`]) has private fields, and outputs take nothing but an index
//! - **keep an index for another thread**: it is branded with a lifetime that `#[kernel]` inserts,
//!   and is neither `Send` nor `Sync`
//! - **reach one element from two threads through a wrong grid**: the exact extent is a hidden
//!   launch parameter: threads outside the extent get no index
//! - **reach one element from two threads through an index that wraps**: indices are 64 bits wide,
//!   and a kernel traps if the volume of its extent does not fit
//! - **read memory that nothing wrote**: the memory for what a kernel returns is no parameter of
//!   its function
//! - **leave an element of that memory unwritten**: a function returns a value, traps, or runs for
//!   ever, and the launch compares the grid with the output
//! - **write a tile from two blocks**: a [`Tile`] comes from the block's ticket, and a kernel has
//!   one source of tickets
//! - **wait for a tile that no block has**: [`LookBack::scan`] takes a tile and publishes it in one
//!   call, and waits for tiles with smaller tickets only
//! - **use two kinds of index on one output**: a kernel takes one index or one block, and a block
//!   gives out one kind of index
//! - **meet a barrier in some threads only**: block-level code sees uniform values only, and no
//!   cell crosses into it ([`PhaseSafe`])
//! - **read shared memory while another thread writes it**: a view opens only with a [`Thread`],
//!   which exists only in phases that end in a barrier
//! - **exchange or vote in some lanes only**: exchanges and votes are methods of the block, which
//!   no closure can borrow
//! - **use the result of a warp or of a thread as the block's**: the result of a warp is
//!   [`Private`]; every thread folds the results of [`Block::reduce`] and [`Block::any`] from the
//!   same values
//! - **use atomics of too narrow a scope**: an [`Atomic`] has the scope of the device;
//!   [`Atomic::block`] is `unsafe`
//!
//! # Kernels that return their element
//!
//! A kernel writes through outputs like [`PerThread`], or returns what its thread or block writes:
//!
//! ```text
//! #[kernel]
//! fn add(i: Index1, a: &[f32], b: &[f32]) -> f32 {
//!     a[i.get()] + b[i.get()]
//! }
//! ```
//!
//! What a kernel of threads or of blocks writes, of an output of `T`:
//!
//! - **threads (an index), or blocks** return `T`, and write the element at the position of the
//!   thread, or of the block.
//! - **threads, or blocks** return `[T; N]`, and write the `N` elements from `N` times the position
//!   on; the last one may write fewer.
//! - **blocks** return [`Private<T>`](Private), and each thread of the block writes the element at
//!   its own position in the launch.
//!
//! The host passes the output last. It may be memory that nothing wrote before, of
//! `stream.alloc_uninit`: the launch takes the buffer by value, and returns it as a buffer that may
//! be read. Memory that was written before is passed by `&mut`. `cuda_rt::KernelOutput` describes
//! both. So a chain of operations needs no `alloc_zeroed`, and no `cuMemsetD8Async`.
//!
//! The kernel cannot read the output. The grid must cover it; a grid that covers too little is
//! refused. Threads and blocks beyond the end of the output do not run, except that all threads of
//! a block run if the block returns a `Private`. The type of the value follows from the syntax: an
//! array behind a type alias is one element.
//!
//! # Constant memory
//!
//! CUDA keeps the parameters of a kernel in constant memory, so numbers, `#[repr(C)]` structs and
//! arrays that are passed by value are there: `weights: [f32; 9]`. All parameters of a kernel
//! together have 4096 bytes at most; a kernel with more does not build. Each launch has its own
//! values, so no launch waits for another one's constants, as it would with `__constant__` memory
//! that is copied to.
//!
//! An array is read in place (`ld.param`) if its indices are known when the kernel is built, as in
//! a loop that is unrolled. If an index is known only at run time, or the loop is too long to be
//! unrolled, each thread first copies the whole array to its local memory, because rustc passes an
//! array as a value. Pass such a table as a slice, `&[f32]`.
//!
//! # Generic kernels
//!
//! A generic kernel lists its instances, and each one has an entry in the PTX:
//!
//! ```text
//! #[kernel(instances = [<f32, 4>, <u8, 16>])]
//! fn reverse<T: Element, const N: usize>(i: Index1, input: &[T], fill: T) -> [T; N] {
//!     let mut values: [T; N] = input.chunk_or(i.get(), fill);
//!     values.reverse();
//!     values
//! }
//! ```
//!
//! The host launches it as a generic function. `cuda_rt::kernel` has an example that runs.
//!
//! # Where a kernel panicked
//!
//! A panic ends the launch, and the process loses the GPU. On the simulated device the error names
//! the kernel, the place and the message.
//!
//! On a GPU a panic is a trap, which carries no text. The feature `panic-place` turns it into
//! CUDA's assertion: the error is `CUDA_ERROR_ASSERT`, and the driver prints file, line, block and
//! thread to standard error. The crate of kernels asks for the feature before its PTX is built:
//! `device-std = { features = ["panic-place"] }`. The message itself is not printed: its formatting
//! would pull in all of `core::fmt`.
//!
//! With `panic-place`, every kernel that can panic needs at least 24 registers (measured for
//! sm_90). Without it, a simple kernel needs fewer: `docs/kernel-report.md` of the repository lists
//! the shipped ones. Up to 32 registers do not limit the threads of a multiprocessor.
//!
//! # What is not caught
//!
//! A kernel that never ends is not caught on a GPU without a watchdog.
//!
//! # What `kernel-build` refuses
//!
//! - A mutable static, in any crate that the kernels depend on: through it, block-level code would
//!   see what other threads did.
//! - Recursion: a thread's stack is small, and nothing guards its end.
//! - PTX in which threads may diverge at a barrier, or in which an entry takes other parameters
//!   than a launch passes. Safe code does not ask for this PTX. If the compiler produces it all the
//!   same, the kernel does not build.
//!
//! # Where the two devices compute different values
//!
//! `cargo xtask fuzz-kernels` compares the bytes that random kernels write on both devices. The
//! kernels use integers, floats with `+ - * /` and [`Float`], comparisons, all `as` conversions,
//! phases, shuffles, votes, reductions, scans and atomics. The kernels leave out these operations;
//! the result on a GPU comes first:
//!
//! - **the bits of a NaN**: `0x7fffffff` from instructions. On the simulated device: the sign and
//!   payload of the CPU.
//! - `f32::min`, `f32::max` of -0 and +0: -0, and +0. On the simulated device: either zero; [`Min`]
//!   and [`Max`] give the same zero on both devices.
//! - `%` and `%=` of floats: refused by `kernel-build`, because LLVM rounds a division: call
//!   [`accurate::rem`] or [`accurate::rem_euclid`]. On the simulated device: exact.
//! - **overflow of `+ - *`, and shifts by too much**: wraps; shifts by the amount modulo the bits.
//!   On the simulated device: a panic, where the crate of kernels is built with `overflow-checks`.
//! - **the order in which threads change an [`Atomic`], which decides the results of `fetch_add`
//!   and the sums of floats**: any. On the simulated device: row-major.
//! - [`fast`]: approximate instructions. On the simulated device: other approximations, within the
//!   same bounds.
//! - **recursion**: refused by `kernel-build`: CUDA gives a thread 1 KiB of stack unless the host
//!   asks for more. On the simulated device: the stack of the host's thread.
//!
//! Instead of recursion, write a loop, with an array that holds the work still to do.
//!
//! # Who validates what
//!
//! The launch (`cuda-rt`) proves that buffers are live, ordered and distinct. It also proves that
//! the kernel was compiled for the grid, the block and the shared memory that the launch passes.
//! This crate proves that no two threads of one launch conflict.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        asm_experimental_arch,
        auto_traits,
        core_float_math,
        core_intrinsics,
        gpu_intrinsics,
        gpu_launch_sized_workgroup_mem,
        link_llvm_intrinsics,
        negative_impls,
        portable_simd,
        stdarch_nvptx
    ),
    allow(internal_features)
)]
#![cfg_attr(all(target_arch = "nvptx64", feature = "half"), feature(f16))]

// The derives name `::device_std` in their output, also where this crate itself uses them.
extern crate self as device_std;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("device addresses and lengths are 64 bits wide: the host must be a 64-bit one");

pub mod accurate;
mod atomic;
mod block;
mod chunk;
#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(feature = "rustacuda")]
mod device_copied;
#[doc(hidden)]
pub mod element;
mod expansion;
mod extent;
pub mod fast;
mod float;
#[cfg(feature = "half")]
mod half_floats;
mod hash;
pub mod hazards;
mod host_thread;
mod image;
mod index;
pub mod layout;
mod module;
mod output;
#[doc(hidden)]
pub mod print;
#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;
mod random;
mod returned;
#[doc(hidden)]
pub mod rt;
#[cfg(not(target_arch = "nvptx64"))]
mod shared_sum;
#[cfg(not(target_arch = "nvptx64"))]
mod simulated;

/// The path by which macros name `core`: in their output, `::core` would mean any crate that the
/// user's crate calls `core` (H42).
#[doc(hidden)]
pub mod __private {
    pub use ::core;
}

/// Re-exported for the derives that [`Element`] needs beside its own.
pub use bytemuck;

pub use atomic::{
    Atomic, AtomicAt, AtomicElement, AtomicInteger, BlockScope, DeviceScope, Scope, SystemScope, ThreadToken,
    fence,
};
pub use block::{
    And, Block, Block2, BlockShared, BlockUninit, Dimensions, Each, EachMut, Lane, LookBack, MatchElement,
    Max, Min, OneD, Operator, Or, PhaseSafe, Private, Product, SharedAtomic, ShuffleElement, Sum, Thread,
    Tile, TileValue, TwoD, View, Xor,
};
pub use chunk::{AlignedChunks, Chunks};
#[cfg(feature = "macros")]
pub use cuda_rt_macros::{Element, kernel, unroll};
#[cfg(feature = "rustacuda")]
pub use device_copied::{AnyBits, DeviceCopied};
pub use element::{Element, Scalar};
pub use extent::Extent;
pub use float::Float;
#[cfg(feature = "half")]
pub use half_floats::{Bf16x2, F16x2, Half};
pub use image::Image;
pub use index::{Index, Index1, Index2, Index3, PlaneIndex};
pub use output::{
    PerBlock, PerRow, PerThread, PerThreadChunk, PerThreadColumn, PerThreadTile, PerTile, RowPlace, Rows,
    TilePlace,
};
pub use print::Printable;
pub use random::{Random, philox4x32};

/// Names that the source of most kernels uses. Other names, for example of operators and of
/// [`Random`], are in the root of the crate.
pub mod prelude {
    #[cfg(feature = "macros")]
    pub use crate::kernel;
    pub use crate::{
        Atomic, Block, Block2, BlockUninit, Chunks, Element, Float, Image, Index1, Index2, Index3, LookBack,
        PerBlock, PerRow, PerThread, PerThreadChunk, PerThreadColumn, PerThreadTile, PerTile, Scalar,
        accurate, fast,
    };
}
