//! Functions that the output of `#[kernel]` calls. Users must not call them: they may change at any
//! time.
//!
//! With functions, the code that a macro puts into a user's crate is short, and its `unsafe` blocks
//! hold none of the user's tokens. The blocks stand in [`__entry!`](crate::__entry), which names
//! this crate by `$crate`. So a crate of the same name cannot put its own functions into them.

use crate::atomic::{Atomic, AtomicElement};
use crate::block::{Block, BlockUninit, Dimensions, LookBack};
use crate::element::{Element, Scalar};
use crate::extent::Extent;
use crate::hash::Layout;
#[cfg(target_arch = "nvptx64")]
use crate::index::{Index1, Index2, Index3};
use crate::output::{PerBlock, PerRow, PerThread, PerThreadChunk, PerThreadColumn, PerThreadTile, PerTile};

mod look_backs;

pub use look_backs::{assert_one_look_back, one_look_back};

pub use crate::returned::{
    Each, EachChunk, EachThread, HasPlace, Place, Return, Returned, ReturnedValue, Written,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use crate::shared_sum::SharedSum;
#[cfg(not(target_arch = "nvptx64"))]
pub use crate::simulated::{
    SharedMemory, SimulatedLaunch, each_block, each_index1, each_index2, each_index3, launch, output, scalar,
    slice,
};

/// A row of a kernel's layout table. Four numbers: the hash of a type, its size and alignment in
/// bytes, and its use.
///
/// Size, alignment and use are plain numbers, because memory safety rests on them. A hash can be
/// forged: users choose the names that go into it. Counterexample: a struct with one field has 4
/// bytes on the host and 256 on the device, and the names of the field make both hashes equal.
pub type Row = [u64; 4];

const HASH: usize = 0;
const SIZE: usize = 1;
const ALIGN: usize = 2;
const USE: usize = 3;

/// A value that may have any bit pattern.
const VALUE: u64 = 1;
/// A value that is 0 or 1, in one byte.
const BOOL: u64 = 2;
const READS: u64 = 3;
const SHARED: u64 = 4;
/// An output. The higher bytes hold its [`KIND`](OutputArgument::KIND).
const WRITES: u64 = 5;
/// The output of the returned values. The higher bytes hold its [`KIND`](Returned::KIND).
const FILLS: u64 = 6;

const fn row<T>(hash: u64, of: u64) -> Row {
    let mut row = [0; 4];
    row[HASH] = hash;
    row[SIZE] = size_of::<T>() as u64;
    row[ALIGN] = align_of::<T>() as u64;
    row[USE] = of;
    row
}

/// 32 bits of a hash of this package's version. Another version may give the numbers of a row, or
/// the parameters of an entry, another meaning.
pub const VERSION: u64 = Layout::of_text(env!("CARGO_PKG_VERSION")).finish() >> 32;

/// The first row of a layout table: the number of dimensions of the launch, and the threads of a
/// block if the kernel takes a block. The upper half of the first number is [`VERSION`].
///
/// Counterexample to rows without a version: the host and the kernels resolve this package by two
/// lock files. A kernel of a version that counts an output in other elements had the same row, and
/// wrote behind the end of a buffer.
pub const fn launch_layout(axes: usize, block: Option<[u32; 2]>) -> Row {
    let launch = axes as u64 | VERSION << 32;
    match block {
        Some([x, y]) => [launch, 1, x as u64, y as u64],
        None => [launch, 0, 0, 0],
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

/// The row of a slice, with the element's layout.
pub const fn slice_layout<T: Element>() -> Row {
    assert_has_size::<T>();
    row::<T>(T::LAYOUT, READS)
}

/// A way of writing and its number of elements, as a word of a row.
///
/// # Panics
/// In a constant, so that the program does not build, if the number is too large for its place in
/// the row. Otherwise two numbers would have one row, and the host and the device could disagree
/// about the elements that a thread writes.
pub(crate) const fn packed(way: u64, elements: usize) -> u64 {
    assert!(
        (elements as u64) < 1 << 32,
        "a thread writes fewer than 2^32 elements of an output"
    );
    way | (elements as u64) << 8
}

/// The row of an output, with the element's layout.
pub const fn output_layout<O: OutputArgument>() -> Row {
    assert_has_size::<O::Element>();
    row::<O::Element>(<O::Element as Element>::LAYOUT, WRITES | const { O::KIND } << 8)
}

/// The row of the output that holds what a kernel returns, with the element's layout.
///
/// A chunk is shorter than 2^32 elements. Counterexample: were the high bits of a length lost, a
/// host that counts 2^48 + 4 elements for each thread would have the row of a device that writes 4,
/// and take a buffer for written that is not.
///
/// ```
/// # use device_std::rt::{EachChunk, Written, returned_layout};
/// const ROW: device_std::rt::Row = returned_layout::<Written<[u8; 4], EachChunk>>();
/// # let _ = ROW;
/// ```
/// ```compile_fail,E0080
/// # use device_std::rt::{EachChunk, Written, returned_layout};
/// const ROW: device_std::rt::Row = returned_layout::<Written<[u8; (1 << 48) + 4], EachChunk>>();
/// # let _ = ROW;
/// ```
pub const fn returned_layout<R: Returned>() -> Row {
    assert_has_size::<R::Element>();
    const { assert!(R::COUNT > 0, "a chunk has elements") };
    row::<R::Element>(<R::Element as Element>::LAYOUT, FILLS | const { R::KIND } << 8)
}

/// The row of a scalar parameter.
///
/// It does not build for a type of no size, or with an alignment above 16 bytes. `#[kernel]`
/// refuses the same types earlier, and names the parameter. Counterexample: rustc gives an entry no
/// parameter for a type of no size, but the host passes an argument for it. Each later argument
/// then arrives one parameter too early, for example an integer in the place of an address.
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

/// The size that all parameters of an entry may have together, in bytes (CUDA C++ Programming
/// Guide, "__global__ Function Parameters").
pub const MAX_PARAMETER_BYTES: usize = 4096;

/// The row of an argument in shared memory. It holds the argument's size: the host decides how much
/// shared memory a launch has, and the entry uses as much as it was built for.
///
/// It does not build for an element with padding, which threads would exchange:
///
/// ```compile_fail,E0080
/// use device_std::BlockUninit;
/// use device_std::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, device_std::Element)]
/// #[repr(C)]
/// struct Padded<T: Copy> {
///     tag: u8,
///     number: T,
/// }
/// unsafe impl<T: Zeroable + Copy> Zeroable for Padded<T> {}
/// // Wrong: there are three bytes of padding between a `u8` and a `u32`.
/// unsafe impl<T: Pod> Pod for Padded<T> {}
/// const LAYOUT: device_std::rt::Row =
///     device_std::rt::shared_layout::<BlockUninit<'static, Padded<u32>, 4>>();
/// ```
pub const fn shared_layout<S: SharedArgument>() -> Row {
    let mut row = row::<u128>(Layout::of::<u128>("shared").finish(), SHARED);
    row[SIZE] = S::BYTES as u64;
    row
}

/// Compiles only for a name that `#[kernel]` gives an entry: letters of ASCII, digits and `_`, and
/// at the end `__` and the 16 hexadecimal digits of a hash.
///
/// No table has such a name, and no function of the compiler or of CUDA. Counterexample to names of
/// other characters: LLVM writes a name into the PTX as it is, so a name can end the entry's head,
/// and go on with a table for another entry.
///
/// # Panics
/// If no entry has such a name.
pub const fn assert_entry_name(name: &str) {
    const HASH_DIGITS: usize = 16;
    const TABLES: &[u8] = b"__cuda_rt_";
    let name = name.as_bytes();
    let mut is_name = name.len() > HASH_DIGITS + 2 && !name[0].is_ascii_digit();
    // A symbol of Rust's: an entry could take the place of another crate's function.
    is_name = is_name && !(name[0] == b'_' && name[1] == b'R');
    let mut is_table = name.len() >= TABLES.len();
    let mut at = 0;
    while at < name.len() {
        let byte = name[at];
        // Places from the end: the hash has the places 1 to 16.
        is_name = is_name
            && match name.len() - at {
                1..=HASH_DIGITS => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                17 | 18 => byte == b'_',
                _ => byte.is_ascii_alphanumeric() || byte == b'_',
            };
        is_table = is_table && (at >= TABLES.len() || byte == TABLES[at]);
        at += 1;
    }
    assert!(
        is_name && !is_table,
        "an entry is called like its kernel, with a hash: `scale__0123456789abcdef`; a kernel's name does not begin with `_R`"
    );
}

/// The number of entries.
pub const fn count(entries: &[&str]) -> usize {
    entries.len()
}

/// The most shared memory that a block of any GPU may have, in bytes: that of compute capability
/// 9.0 and 10.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
/// The load of a kernel compares its sum with what the device has.
pub const MAX_SHARED_BYTES: usize = 227 << 10;

/// The sum of a kernel's arguments in shared memory, in bytes, from its layout table.
///
/// ```
/// use device_std::BlockUninit;
/// use device_std::rt::{shared_bytes, shared_layout};
///
/// let table = [[1, 256, 0, 0], shared_layout::<BlockUninit<'static, f32, 5>>()];
/// assert_eq!(shared_bytes(table.as_flattened()), 32); // rounded up to 16
/// ```
pub const fn shared_bytes(layout: &[u64]) -> usize {
    // The first row describes the launch.
    let (mut sum, mut row) = (0, 4);
    while row + USE < layout.len() {
        if layout[row + USE] == SHARED {
            sum += layout[row + SIZE] as usize;
        }
        row += 4;
    }
    sum
}

/// A kernel argument in shared memory.
///
/// # Safety
/// `BYTES` is a multiple of 16, and a value uses no more than `BYTES` bytes.
pub unsafe trait SharedArgument {
    /// Its size in bytes.
    const BYTES: usize;
    /// Whether a block's shared memory can hold it. If not, `BYTES` does not build.
    const FITS: bool;
    /// # Safety
    /// `ptr` is aligned to 16 bytes and valid for `BYTES` bytes of the block's shared memory, which
    /// has no other user.
    unsafe fn new(ptr: *mut u8) -> Self;
}

// SAFETY: `BYTES` is rounded up to a multiple of 16, and `N` elements need no more
// (SHARED-MEMORY-1).
unsafe impl<T: Element, const N: usize> SharedArgument for BlockUninit<'_, T, N> {
    const BYTES: usize = Self::BYTES;
    const FITS: bool = Self::FITS;

    #[inline(always)]
    unsafe fn new(ptr: *mut u8) -> Self {
        // SAFETY: the caller hands over `BYTES` bytes of the block's shared memory at `ptr`, which
        // is the contract of `BlockUninit::new` too.
        unsafe { BlockUninit::new(ptr) }
    }
}

/// An output of a kernel, made from an address and a length.
///
/// # Safety
/// A value uses nothing but its `len` elements. If `IS_EXCLUSIVE`, no other thread uses the
/// elements that this thread reaches.
pub unsafe trait OutputArgument {
    /// The element.
    type Element: Element;
    /// Whether each thread has elements of its own.
    const IS_EXCLUSIVE: bool;
    /// Identifies the type of output and its number of elements for each thread.
    const KIND: u64;
    /// # Safety
    /// `ptr` is valid for reads and writes of `len` elements, which only this launch uses.
    unsafe fn new(ptr: *mut Self::Element, len: usize) -> Self;
}

/// An argument that ends with the launch whose brand is `'k`.
///
/// `#[kernel]` finds the role of a parameter by the name of its type, and a program may give this
/// name to another type. Counterexample: `type PerThread<'k, T> = device_std::PerThread<'static,
/// T>`. A simulated kernel kept this output in a thread-local, and wrote through it after the
/// memory had another owner.
///
/// # Safety
/// The type lends memory for `'k`, and its own lifetime is `'k`.
pub unsafe trait Branded<'k>: Sized {}

// SAFETY: the type lends shared memory for `'k`, and `'k` is its own lifetime.
unsafe impl<'k, T: Element, const N: usize> Branded<'k> for BlockUninit<'k, T, N> {}

macro_rules! outputs {
    ($({$($generics:tt)*} $type:ty, $is_exclusive:literal, $kind:expr;)*) => { $(
        // SAFETY: the macro's pattern gives the type the lifetime `'k`, and each type lends a `&'k
        // mut` buffer.
        unsafe impl<'k, $($generics)*> Branded<'k> for $type {}

        // SAFETY: each type reaches only its `len` elements. In an exclusive type, no two threads
        // reach one element: PER-THREAD-2, PER-THREAD-CHUNK-2, PER-THREAD-TILE-2,
        // PER-ROW-2, PER-TILE-2 and PER-BLOCK-2.
        unsafe impl<'k, $($generics)*> OutputArgument for $type {
            type Element = T;
            const IS_EXCLUSIVE: bool = $is_exclusive;
            const KIND: u64 = $kind;

            #[inline(always)]
            unsafe fn new(ptr: *mut T, len: usize) -> Self {
                // SAFETY: the caller hands over `len` elements at `ptr` to this launch alone, which
                // is the contract of the type's `new` too.
                unsafe { Self::new(ptr, len) }
            }
        }
    )* };
}

outputs! {
    {T: Element} PerThread<'k, T>, true, 1;
    {T: Element, const ROWS: usize} PerThreadColumn<'k, T, ROWS>, true, packed(2, ROWS);
    {T: Element, const N: usize} PerThreadChunk<'k, T, N>, true, packed(3, N);
    {T: Element} PerBlock<'k, T>, true, 4;
    {T: Element, const N: usize, const ROWS: usize} PerThreadTile<'k, T, N, ROWS>, true, PerThreadTile::<'k, T, N, ROWS>::WAY;
    {T: Element, const N: usize, const THREADS: usize} PerRow<'k, T, N, THREADS>, true, PerRow::<'k, T, N, THREADS>::WAY;
    {T: Element, const N: usize, const K: usize} PerTile<'k, T, N, K>, true, PerTile::<'k, T, N, K>::WAY;
    {T: AtomicElement} Atomic<'k, T>, false, 5;
}

/// The [`KIND`](OutputArgument::KIND) of a [`LookBack`].
const LOOK_BACK: u64 = 9;

// SAFETY: the type lends memory for `'k`, and `'k` is its own lifetime.
unsafe impl<'k> Branded<'k> for LookBack<'k, u64> {}

// SAFETY: the type reaches only its `len` words (LOOK-BACK-1).
unsafe impl<'k> OutputArgument for LookBack<'k, u64> {
    type Element = u64;
    const IS_EXCLUSIVE: bool = false;
    const KIND: u64 = LOOK_BACK;

    #[inline(always)]
    unsafe fn new(ptr: *mut u64, len: usize) -> Self {
        // SAFETY: the caller hands over `len` words at `ptr` to this launch alone, which is the
        // contract of `LookBack::new` too.
        unsafe { Self::new(ptr, len) }
    }
}

/// The block at `at`.
///
/// # Safety
/// The launch has `blocks` blocks of `size` threads each, and this extent. The caller makes one
/// value for each block.
#[inline(always)]
pub unsafe fn block<'k, D: Dimensions>(
    at: [u32; 2],
    size: [u32; 2],
    blocks: [u32; 2],
    extent: Extent,
) -> Block<'k, D> {
    // SAFETY: the caller gives the launch's own numbers, and makes one value for each block
    // (BLOCK-1).
    unsafe { Block::new(at, size, blocks, extent) }
}

/// Functions that only entries call.
#[cfg(target_arch = "nvptx64")]
pub mod entry {
    use super::*;
    use crate::device::registers;

    /// A word of the table of parameters: a parameter's size, alignment and use.
    const fn word<T>(of: u64) -> u64 {
        size_of::<T>() as u64 | (align_of::<T>() as u64) << 32 | of << 48
    }

    /// The word of a parameter that is a value.
    pub const fn value<T>() -> u64 {
        word::<T>(0)
    }

    /// The word of a parameter that is the address of memory which nobody writes during the launch.
    pub const fn reads<T>() -> u64 {
        word::<T>(1)
    }

    /// The word of a parameter that is the address of memory which the launch may write.
    pub const fn writes<T>() -> u64 {
        word::<T>(2)
    }

    /// The word of a parameter that is the address of memory which may hold nothing before the
    /// launch. The launch writes it, and does not read it.
    pub const fn fills<T>() -> u64 {
        word::<T>(3)
    }

    /// Compiles only for an argument that ends with the launch: for a type that lives longer, the
    /// call does not build.
    #[inline(always)]
    pub const fn ends_with_launch<'k, A: Branded<'k>>() {}

    /// An index that an entry gives its thread.
    ///
    /// # Safety
    /// `current` gives each thread of a launch with `AXES` dimensions its own index.
    pub unsafe trait EntryIndex: Sized {
        /// The dimensions of a launch with this index.
        const AXES: usize;

        /// The index of this thread. Counterexample to a safe function: a kernel with an `Index2`
        /// could make an `Index1`, and all threads of a column would reach one element.
        ///
        /// # Safety
        /// The calling thread belongs to a launch of this extent, with `AXES` dimensions.
        #[doc(hidden)]
        unsafe fn current(extent: Extent) -> Option<Self>;
    }

    macro_rules! entry_indices {
        ($($index:ident: $axes:literal;)*) => { $(
            // SAFETY: `current` reads the thread's own registers, which differ in each thread of a
            // launch with these dimensions (INDEX-1).
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

    /// The first row of a kernel that takes this index.
    pub const fn index_layout<I: EntryIndex>() -> Row {
        launch_layout(I::AXES, None)
    }

    /// The first row of a kernel that takes a block of `size` threads.
    pub const fn block_layout<D: Dimensions>(size: [u32; 2]) -> Row {
        launch_layout(D::AXES, Some(size))
    }

    /// # Safety
    /// The calling thread belongs to a launch of this extent, with `AXES` dimensions.
    #[inline(always)]
    pub unsafe fn index<I: EntryIndex>(extent: Extent) -> Option<I> {
        // SAFETY: the caller belongs to a launch of this extent, with `AXES` dimensions.
        unsafe { I::current(extent) }
    }

    /// # Safety
    /// The calling thread belongs to a launch of this extent with `size` threads in each block, and
    /// calls this once.
    #[inline(always)]
    pub unsafe fn block<'k, D: Dimensions>(size: [u32; 2], extent: Extent) -> Block<'k, D> {
        // SAFETY: the caller belongs to a launch of this extent and block size, and makes one value
        // (BLOCK-1).
        unsafe { Block::current(size, extent) }
    }

    /// The slice at a buffer parameter.
    ///
    /// # Safety
    /// `start` is the address of `len` elements that nobody writes during the launch.
    #[inline(always)]
    pub unsafe fn slice<T: Element>(start: &[T; 0], len: usize) -> &[T] {
        // SAFETY: the caller says that `len` elements begin at `start`, and that nobody writes them
        // during the launch. (A reference as the entry's parameter tells LLVM that reads may use
        // the read-only cache.)
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The exclusive output at a buffer parameter.
    ///
    /// # Safety
    /// `start` is the address of `len` elements that only this launch uses.
    #[inline(always)]
    pub unsafe fn exclusive<O: OutputArgument>(start: &mut [O::Element; 0], len: usize) -> O {
        const { assert!(O::IS_EXCLUSIVE, "`Atomic` has the name of another type of output") };
        // SAFETY: the caller says that `len` elements begin at `start`, and that only this launch
        // uses them. (A reference as the entry's parameter tells LLVM that nothing else writes
        // there.)
        unsafe { O::new(start.as_mut_ptr(), len) }
    }

    /// The atomic output at a buffer parameter: other threads change its elements at the same time.
    ///
    /// # Safety
    /// As [`exclusive`].
    #[inline(always)]
    pub unsafe fn atomic<O: OutputArgument>(start: *mut O::Element, len: usize) -> O {
        // SAFETY: the caller says that `len` elements begin at `start`, and that only this launch
        // uses them.
        unsafe { O::new(start, len) }
    }

    /// Whether the kernel's function runs at `place`, if its output has `len` elements.
    #[inline(always)]
    pub fn runs<R: Returned>(_start: &mut [R::Element; 0], len: usize, place: &Place) -> bool {
        R::runs(len, place)
    }

    /// Writes what the kernel's function returned.
    ///
    /// # Safety
    /// `start` is the address of `len` elements that only this launch uses. `place` is the place of
    /// the calling thread, and [`runs`] holds for it.
    #[inline(always)]
    pub unsafe fn returned<R: Returned>(
        start: &mut [R::Element; 0],
        len: usize,
        place: &Place,
        value: R::Value,
    ) {
        // SAFETY: the caller says that `len` elements begin at `start`, that only this launch uses
        // them, and that `runs` holds for the thread's own place. (A reference as the entry's
        // parameter tells LLVM that nothing else writes there.)
        unsafe { R::write(start.as_mut_ptr().cast(), len, place, value) };
    }

    /// The argument in shared memory that starts at byte `offset`.
    ///
    /// # Safety
    /// The launch has at least `offset + S::BYTES` bytes of dynamic shared memory, `offset` is a
    /// multiple of 16, and each thread opens this range once.
    #[inline(always)]
    pub unsafe fn shared<S: SharedArgument>(offset: usize) -> S {
        // SAFETY: the caller says that the launch has `offset` bytes of shared memory and more.
        let ptr = unsafe { registers::shared_memory().add(offset) };
        // SAFETY: the caller says that `S::BYTES` bytes lie behind `offset`, aligned to 16, and
        // opens them once.
        unsafe { S::new(ptr) }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests;
