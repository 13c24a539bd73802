//! What the output of `#[kernel]` calls. Not for users: no stability.
//!
//! Behind functions, so that what a macro puts into a user's crate is short, and its `unsafe`
//! blocks hold nothing of the user's. Those blocks stand in [`__entry!`](crate::__entry), which
//! names this crate by `$crate`: another crate of its name gets nothing out of them.

use crate::atomic::{Atomic, AtomicElement};
use crate::block::{Block, BlockUninit, Dimensions};
use crate::element::{Element, Scalar};
use crate::extent::Extent;
use crate::hash::Layout;
#[cfg(target_arch = "nvptx64")]
use crate::index::{Index1, Index2, Index3};
use crate::output::{PerBlock, PerThread, PerThreadChunk, PerThreadColumn};

#[cfg(not(target_arch = "nvptx64"))]
pub use crate::simulated::{
    SharedMemory, SimulatedLaunch, each_block, each_index1, each_index2, each_index3, launch, output, scalar,
    slice,
};

/// A row of a kernel's layout table, of four numbers: the hash of a type, its size and its
/// alignment in bytes, and its use.
///
/// Size, alignment and use are plain numbers, for memory safety rests on them: a hash of names that
/// the user chooses can be forged. Counterexample: a struct of 4 bytes on the host and of 256 on
/// the device, with a field each whose name makes the hashes equal.
pub type Row = [u64; 4];

const HASH: usize = 0;
const SIZE: usize = 1;
const ALIGN: usize = 2;
const USE: usize = 3;

/// A value of any bits.
const VALUE: u64 = 1;
/// A value that is 0 or 1.
const BOOL: u64 = 2;
const READS: u64 = 3;
const SHARED: u64 = 4;
/// What a kernel writes through: and, in the higher bytes, which output it is.
const WRITES: u64 = 5;

const fn row<T>(hash: u64, of: u64) -> Row {
    let mut row = [0; 4];
    row[HASH] = hash;
    row[SIZE] = size_of::<T>() as u64;
    row[ALIGN] = align_of::<T>() as u64;
    row[USE] = of;
    row
}

/// The first row of a layout table: the dimensions of the launch, and the threads of a block where
/// the kernel works in blocks.
pub const fn launch_layout(axes: usize, block: Option<[u32; 2]>) -> Row {
    match block {
        Some([x, y]) => [axes as u64, 1, x as u64, y as u64],
        None => [axes as u64, 0, 0, 0],
    }
}

const fn assert_has_size<T>() {
    const {
        assert!(
            size_of::<T>() > 0,
            "device memory cannot hold elements of no size"
        )
    };
}

/// The row of a slice, by its element.
pub const fn slice_layout<T: Element>() -> Row {
    assert_has_size::<T>();
    row::<T>(T::LAYOUT, READS)
}

/// The row of what a kernel writes through, with the element's layout.
pub const fn output_layout<O: OutputArgument>() -> Row {
    assert_has_size::<O::Element>();
    row::<O::Element>(<O::Element as Element>::LAYOUT, WRITES | O::KIND << 8)
}

/// The row of a scalar parameter.
///
/// The entry has one parameter for each scalar, or nothing builds. (`#[kernel]` refuses the same
/// types earlier, where the user wrote them and by the parameter's name.) Counterexample: rustc
/// gives an entry no parameter for a type of no size, while the host passes one; the entry then
/// takes each later argument for the one before, an integer for an address.
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, device_std::Element)]
/// #[repr(C)]
/// struct Tag([u32; 0]);
/// const LAYOUT: device_std::rt::Row = device_std::rt::scalar_layout::<Tag>();
/// ```
///
/// With a size it builds:
///
/// ```
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, device_std::Element)]
/// #[repr(C)]
/// struct Tag([u32; 1]);
/// const LAYOUT: device_std::rt::Row = device_std::rt::scalar_layout::<Tag>();
/// ```
pub const fn scalar_layout<T: Scalar>() -> Row {
    const { assert!(size_of::<T>() > 0, "a kernel cannot take a parameter of no size") };
    const {
        assert!(
            align_of::<T>() <= MAX_PARAMETER_ALIGN,
            "the parameters of a kernel are aligned to 16 bytes at most"
        )
    };
    row::<T>(T::LAYOUT, if T::IS_ANY_BITS { VALUE } else { BOOL })
}

/// The largest alignment that an entry's parameter may have, in bytes.
pub const MAX_PARAMETER_ALIGN: usize = 16;

/// What the parameters of an entry may take together, in bytes (CUDA C++ Programming Guide,
/// "__global__ Function Parameters").
pub const MAX_PARAMETER_BYTES: usize = 4096;

/// The row of an argument in shared memory, with its size: the host says how much a launch has of
/// it, and the entry uses what it was built for.
pub const fn shared_layout<S: SharedArgument>() -> Row {
    let mut row = row::<u128>(Layout::of::<u128>("shared").finish(), SHARED);
    row[SIZE] = S::BYTES as u64;
    row
}

/// The entries of a layout table.
pub const fn count(entries: &[&str]) -> usize {
    entries.len()
}

/// Shared memory that a block has without opting in, in bytes.
pub const MAX_SHARED_BYTES: usize = 48 << 10;

/// What a kernel argument in shared memory is made of.
///
/// # Safety
/// `BYTES` is a multiple of 16, and no more than these are used.
pub unsafe trait SharedArgument {
    /// Its size in bytes.
    const BYTES: usize;
    /// Whether a block's shared memory can hold it; where not, `BYTES` does not build.
    const FITS: bool;
    /// # Safety
    /// `ptr` is aligned to 16 bytes and valid for `BYTES` bytes of the block's shared memory, which
    /// nothing else uses.
    unsafe fn new(ptr: *mut u8) -> Self;
}

// SAFETY: `BYTES` is rounded up.
unsafe impl<T: Element, const N: usize> SharedArgument for BlockUninit<'_, T, N> {
    const BYTES: usize = Self::BYTES;
    const FITS: bool = Self::FITS;

    #[inline(always)]
    unsafe fn new(ptr: *mut u8) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { BlockUninit::new(ptr) }
    }
}

/// What a kernel writes through, made from an address and a length.
///
/// # Safety
/// Nothing but the `len` elements is used; other threads use those of this thread only where
/// `IS_EXCLUSIVE` is false.
pub unsafe trait OutputArgument {
    /// The element.
    type Element: Element;
    /// Whether threads have elements of their own.
    const IS_EXCLUSIVE: bool;
    /// Which output it is, and of how many elements for each thread: another number for each.
    const KIND: u64;
    /// # Safety
    /// `ptr` is valid for reads and writes of `len` elements, which only this launch uses.
    unsafe fn new(ptr: *mut Self::Element, len: usize) -> Self;
}

/// An argument of the launch whose brand is `'k`: it ends with that launch.
///
/// A kernel's roles go by the names of its types, and a program may call another type by one of
/// these names. Counterexample: an alias `PerThread<'k, T>` of `PerThread<'static, T>`. A simulated
/// kernel kept its output in a thread-local, and wrote through it after the memory had another
/// owner.
///
/// # Safety
/// The type lends memory, and its own lifetime is `'k`.
pub unsafe trait Branded<'k>: Sized {}

// SAFETY: by the header.
unsafe impl<'k, T: Element, const N: usize> Branded<'k> for BlockUninit<'k, T, N> {}

macro_rules! outputs {
    ($({$($generics:tt)*} $type:ty, $is_exclusive:literal, $kind:expr;)*) => { $(
        // SAFETY: by the header.
        unsafe impl<'k, $($generics)*> Branded<'k> for $type {}

        // SAFETY: as the type's own invariants say.
        unsafe impl<'k, $($generics)*> OutputArgument for $type {
            type Element = T;
            const IS_EXCLUSIVE: bool = $is_exclusive;
            const KIND: u64 = $kind;

            #[inline(always)]
            unsafe fn new(ptr: *mut T, len: usize) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { Self::new(ptr, len) }
            }
        }
    )* };
}

outputs! {
    {T: Element} PerThread<'k, T>, true, 1;
    {T: Element, const ROWS: usize} PerThreadColumn<'k, T, ROWS>, true, 2 | (ROWS as u64) << 8;
    {T: Element, const N: usize} PerThreadChunk<'k, T, N>, true, 3 | (N as u64) << 8;
    {T: Element} PerBlock<'k, T>, true, 4;
    {T: AtomicElement} Atomic<'k, T>, false, 5;
}

/// The block at `at`.
///
/// # Safety
/// The launch has `blocks` blocks of `size` threads each and this extent; there is one such value
/// for each block.
#[inline(always)]
pub unsafe fn block<'k, D: Dimensions>(
    at: [u32; 2],
    size: [u32; 2],
    blocks: [u32; 2],
    extent: Extent,
) -> Block<'k, D> {
    // SAFETY: passed on to the caller.
    unsafe { Block::new(at, size, blocks, extent) }
}

/// What only entries use.
#[cfg(target_arch = "nvptx64")]
pub mod entry {
    use super::*;
    use crate::device::registers;

    /// A parameter in the table of parameters: its size, its alignment, and its use.
    const fn word<T>(of: u64) -> u64 {
        size_of::<T>() as u64 | (align_of::<T>() as u64) << 32 | of << 48
    }

    /// A parameter that is a value.
    pub const fn value<T>() -> u64 {
        word::<T>(0)
    }

    /// A parameter that is the address of what nobody writes during the launch.
    pub const fn reads<T>() -> u64 {
        word::<T>(1)
    }

    /// A parameter that is the address of what the launch may write.
    pub const fn writes<T>() -> u64 {
        word::<T>(2)
    }

    /// Holds where an argument ends with the launch.
    #[inline(always)]
    pub const fn ends_with_launch<'k, A: Branded<'k>>() {}

    /// An index that an entry gives its thread.
    ///
    /// # Safety
    /// `current` gives each thread of a launch with `AXES` dimensions an index of its own.
    pub unsafe trait EntryIndex: Sized {
        /// The dimensions of a launch with this index.
        const AXES: usize;

        /// The index of this thread. Counterexample: were it safe, a kernel with an `Index2` could
        /// make an `Index1`, and all threads of a column would have one element.
        ///
        /// # Safety
        /// At the start of a launch of this extent, with the dimensions of the index.
        #[doc(hidden)]
        unsafe fn current(extent: Extent) -> Option<Self>;
    }

    macro_rules! entry_indices {
        ($($index:ident: $axes:literal;)*) => { $(
            // SAFETY: the hardware tells each thread of these dimensions where it is.
            unsafe impl EntryIndex for $index<'_> {
                const AXES: usize = $axes;

                #[inline(always)]
                unsafe fn current(extent: Extent) -> Option<Self> {
                    Self::current(extent)
                }
            }
        )* };
    }
    entry_indices!(Index1: 1; Index2: 2; Index3: 3;);

    /// The row of a kernel with this index.
    pub const fn index_layout<I: EntryIndex>() -> Row {
        launch_layout(I::AXES, None)
    }

    /// The row of a kernel that works in blocks of `size` threads.
    pub const fn block_layout<D: Dimensions>(size: [u32; 2]) -> Row {
        launch_layout(D::AXES, Some(size))
    }

    /// # Safety
    /// At the start of a launch of this extent, with the dimensions of the index.
    #[inline(always)]
    pub unsafe fn index<I: EntryIndex>(extent: Extent) -> Option<I> {
        // SAFETY: passed on to the caller.
        unsafe { I::current(extent) }
    }

    /// # Safety
    /// At the start of a launch of this extent with `size` threads a block, once.
    #[inline(always)]
    pub unsafe fn block<'k, D: Dimensions>(size: [u32; 2], extent: Extent) -> Block<'k, D> {
        // SAFETY: passed on to the caller.
        unsafe { Block::current(size, extent) }
    }

    /// The slice at a buffer parameter.
    ///
    /// # Safety
    /// `start` is the address of `len` elements that nobody writes during the launch.
    #[inline(always)]
    pub unsafe fn slice<T: Element>(start: &[T; 0], len: usize) -> &[T] {
        // SAFETY: passed on to the caller. (A reference as the entry's parameter tells LLVM that
        // reads may use the read-only cache.)
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The output at a buffer parameter, of elements that no other thread uses.
    ///
    /// # Safety
    /// `start` is the address of `len` elements that only this launch uses.
    #[inline(always)]
    pub unsafe fn exclusive<O: OutputArgument>(start: &mut [O::Element; 0], len: usize) -> O {
        const { assert!(O::IS_EXCLUSIVE, "an atomic under another's name") };
        // SAFETY: passed on to the caller. (A reference as the entry's parameter tells LLVM that
        // nothing else writes there.)
        unsafe { O::new(start.as_mut_ptr(), len) }
    }

    /// The output at a buffer parameter, of elements that other threads change meanwhile.
    ///
    /// # Safety
    /// As [`exclusive`].
    #[inline(always)]
    pub unsafe fn atomic<O: OutputArgument>(start: *mut O::Element, len: usize) -> O {
        // SAFETY: passed on to the caller.
        unsafe { O::new(start, len) }
    }

    /// Shared memory `OFFSET` bytes in.
    ///
    /// # Safety
    /// The launch has that much dynamic shared memory, and this is called once with ranges that do
    /// not overlap.
    #[inline(always)]
    pub unsafe fn shared<S: SharedArgument, const OFFSET: usize>() -> S {
        // SAFETY: passed on to the caller.
        let ptr = unsafe { registers::shared_memory().add(OFFSET) };
        // SAFETY: passed on to the caller.
        unsafe { S::new(ptr) }
    }
}
