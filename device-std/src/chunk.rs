//! Moves several elements at once, by one load or store of up to 16 bytes if the memory is aligned
//! for it.
//!
//! A chunk of elements with padding does not build, but a [`DeviceCopied`](crate::DeviceCopied) has
//! no layout in which padding would show. Therefore the words are `MaybeUninit`, which may be
//! padding. Counterexample to `u32`: an attribute macro unpacked a struct behind its derives.

use core::mem::MaybeUninit;

use crate::element::Element;

/// 16 bytes, moved at once. On the device this is a vector type: LLVM may merge a move of separate
/// words with the path that moves words one by one, and then emits several instructions.
#[cfg(target_arch = "nvptx64")]
type Words4 = core::simd::u32x4;
#[cfg(target_arch = "nvptx64")]
type Words2 = core::simd::u32x2;
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Words4([u32; 4]);
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Words2([u32; 2]);

/// The size, in bytes, of the widest piece in which a `[T; N]` is moved: 16, 8 or 4 if it divides
/// the array's size, and is no less than the element's alignment. 0 if there is none.
const fn widest<T, const N: usize>() -> usize {
    let bytes = size_of::<[T; N]>();
    let widest = if bytes.is_multiple_of(16) {
        16
    } else if bytes.is_multiple_of(8) {
        8
    } else if bytes.is_multiple_of(4) {
        4
    } else {
        0
    };
    if align_of::<T>() <= widest { widest } else { 0 }
}

/// The alignment, in bytes, that memory needs so that a `[T; N]` is moved in the widest pieces.
pub(crate) const fn alignment<T, const N: usize>() -> usize {
    match widest::<T, N>() {
        0 => align_of::<T>(),
        widest => widest,
    }
}

/// Whether `[T; N]` is moved in pieces of type `W`: `W` is the widest piece, and the address is
/// aligned for it.
#[inline(always)]
fn moves_as<W, T, const N: usize>(address: usize) -> bool {
    size_of::<W>() == const { widest::<T, N>() } && address.is_multiple_of(align_of::<W>())
}

/// Returns the same address, in a way that LLVM cannot see through. If LLVM knew that the addresses
/// are equal, it would share loads and stores between the paths for aligned and for unaligned
/// memory. The aligned path would then need more than one instruction.
#[inline(always)]
fn apart<T>(ptr: *mut T) -> *mut T {
    #[cfg(target_arch = "nvptx64")]
    return {
        let same: *mut T;
        // SAFETY: the instruction copies a register, and touches no memory.
        unsafe {
            core::arch::asm!("mov.b64 {}, {};", out(reg64) same, in(reg64) ptr, options(pure, nomem, nostack));
        }
        same
    };
    #[cfg(not(target_arch = "nvptx64"))]
    ptr
}

/// # Safety
/// `from` is valid for reads and `to` for writes of a `[T; N]`. The size of `W` divides the size of
/// the array. The two arrays do not overlap, and `move_piece` is sound for each pair of pieces.
#[inline(always)]
unsafe fn each_piece<W, T, const N: usize>(
    from: *const T,
    to: *mut T,
    move_piece: impl Fn(*const MaybeUninit<W>, *mut MaybeUninit<W>),
) {
    let (from, to) = (from.cast::<MaybeUninit<W>>(), to.cast::<MaybeUninit<W>>());
    for at in 0..size_of::<[T; N]>() / size_of::<W>() {
        // SAFETY: the caller says that `from` is valid for `N` elements, and piece `at` lies inside
        // them.
        let from = unsafe { from.add(at) };
        // SAFETY: the caller says that `to` is valid for `N` elements, and piece `at` lies inside
        // them.
        let to = unsafe { to.add(at) };
        move_piece(from, to);
    }
}

/// # Safety
/// `ptr` is valid for reads of `N` elements, and [`moves_as`] holds for its address.
#[inline(always)]
unsafe fn read_as<W: Copy, T: Element, const N: usize>(ptr: *const T) -> [T; N] {
    let mut values = [T::zeroed(); N];
    let move_piece = |from: *const MaybeUninit<W>, to: *mut MaybeUninit<W>| {
        // SAFETY: the caller says that `ptr` is valid for reads, and aligned for `W`. Every byte,
        // also of padding, is one of a `MaybeUninit`.
        let piece = unsafe { from.read() };
        // SAFETY: `to` is a piece of `values`.
        unsafe { to.write_unaligned(piece) };
    };
    // SAFETY: the caller says that `ptr` is valid for reads of `N` elements; `values` has `N`
    // elements.
    unsafe { each_piece::<W, T, N>(ptr, values.as_mut_ptr(), move_piece) };
    values
}

/// # Safety
/// `ptr` is valid for writes of `N` elements, and [`moves_as`] holds for its address.
#[inline(always)]
unsafe fn write_as<W: Copy, T: Element, const N: usize>(ptr: *mut T, values: [T; N]) {
    let move_piece = |from: *const MaybeUninit<W>, to: *mut MaybeUninit<W>| {
        // SAFETY: `from` is a piece of `values`. Every byte, also of padding, is one of a
        // `MaybeUninit`.
        let piece = unsafe { from.read_unaligned() };
        // SAFETY: the caller says that `ptr` is valid for writes, and aligned for `W`.
        unsafe { to.write(piece) };
    };
    // SAFETY: `values` has `N` elements, and the caller says that `ptr` is valid for writes of `N`.
    unsafe { each_piece::<W, T, N>(values.as_ptr(), ptr, move_piece) };
}

/// Computes the layout of `T`: it does not build for a type with padding.
const fn assert_layout<T: Element>() {
    let _ = T::LAYOUT;
}

/// Reads `N` elements.
///
/// # Safety
/// `ptr` is valid for reads of `N` elements, and aligned for one.
#[inline(always)]
pub(crate) unsafe fn read<T: Element, const N: usize>(ptr: *const T) -> [T; N] {
    const { assert_layout::<T>() };
    let address = ptr.addr();
    if moves_as::<Words4, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { read_as::<Words4, T, N>(ptr) }
    } else if moves_as::<Words2, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { read_as::<Words2, T, N>(ptr) }
    } else if moves_as::<u32, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { read_as::<u32, T, N>(ptr) }
    } else {
        // SAFETY: the caller says that the elements are valid, and that `ptr` is aligned for one of
        // them.
        unsafe { read_as::<T, T, N>(apart(ptr.cast_mut())) }
    }
}

/// Writes `N` elements.
///
/// # Safety
/// `ptr` is valid for writes of `N` elements, and aligned for one. Nothing else uses these elements
/// during the call.
#[inline(always)]
pub(crate) unsafe fn write<T: Element, const N: usize>(ptr: *mut T, values: [T; N]) {
    const { assert_layout::<T>() };
    let address = ptr.addr();
    if moves_as::<Words4, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { write_as::<Words4, T, N>(ptr, values) }
    } else if moves_as::<Words2, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { write_as::<Words2, T, N>(ptr, values) }
    } else if moves_as::<u32, T, N>(address) {
        // SAFETY: the caller says that the elements are valid, and `moves_as` holds.
        unsafe { write_as::<u32, T, N>(ptr, values) }
    } else {
        // SAFETY: the caller says that the elements are valid, and that `ptr` is aligned for one of
        // them.
        unsafe { write_as::<T, T, N>(apart(ptr), values) }
    }
}

/// Panics on the simulated device if an address is not aligned for the widest pieces: the processor
/// would move them all the same.
#[inline(always)]
fn assert_aligned<T, const N: usize>(address: usize) {
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(
        address.is_multiple_of(alignment::<T, N>()),
        "a chunk is moved at an address that is not aligned for it"
    );
    #[cfg(target_arch = "nvptx64")]
    let _ = address;
}

/// Reads `N` elements in the widest pieces.
///
/// # Safety
/// `ptr` is valid for reads of `N` elements, and a multiple of [`alignment`].
#[inline(always)]
pub(crate) unsafe fn read_aligned<T: Element, const N: usize>(ptr: *const T) -> [T; N] {
    const { assert_layout::<T>() };
    assert_aligned::<T, N>(ptr.addr());
    match const { widest::<T, N>() } {
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        16 => unsafe { read_as::<Words4, T, N>(ptr) },
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        8 => unsafe { read_as::<Words2, T, N>(ptr) },
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        4 => unsafe { read_as::<u32, T, N>(ptr) },
        // SAFETY: the caller says that the elements are valid, and aligned for one of them.
        _ => unsafe { read_as::<T, T, N>(ptr) },
    }
}

/// Writes `N` elements in the widest pieces.
///
/// # Safety
/// `ptr` is valid for writes of `N` elements, and a multiple of [`alignment`]. Nothing else uses
/// these elements during the call.
#[inline(always)]
pub(crate) unsafe fn write_aligned<T: Element, const N: usize>(ptr: *mut T, values: [T; N]) {
    const { assert_layout::<T>() };
    assert_aligned::<T, N>(ptr.addr());
    match const { widest::<T, N>() } {
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        16 => unsafe { write_as::<Words4, T, N>(ptr, values) },
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        8 => unsafe { write_as::<Words2, T, N>(ptr, values) },
        // SAFETY: the caller says that the elements are valid, and aligned for the piece.
        4 => unsafe { write_as::<u32, T, N>(ptr, values) },
        // SAFETY: the caller says that the elements are valid, and aligned for one of them.
        _ => unsafe { write_as::<T, T, N>(ptr, values) },
    }
}

/// Chunks of `N` elements that follow each other, aligned for the widest loads: from
/// [`Chunks::aligned_chunks`].
///
/// ```
/// use device_std::{AlignedChunks, Chunks};
///
/// /// The sum of whole chunks.
/// fn sum(chunks: AlignedChunks<'_, u32, 4>) -> u32 {
///     assert_eq!(chunks.is_empty(), chunks.len() == 0);
///     (0..chunks.len()).filter_map(|at| chunks.get(at)).flatten().sum()
/// }
///
/// let numbers = [1_u32; 32];
/// let (before, chunks, after) = numbers.aligned_chunks();
/// assert_eq!(sum(chunks) as usize + before.len() + after.len(), 32);
/// ```
///
/// # Invariants
/// - ALIGNED-CHUNKS-1. `elements` begins at a multiple of `alignment::<T, N>()`, and its length is
///   a multiple of `N`. So each chunk begins at such a multiple: the widest piece divides the size
///   of a chunk.
#[derive(Debug)]
pub struct AlignedChunks<'a, T, const N: usize> {
    elements: &'a [T],
}

impl<T, const N: usize> Clone for AlignedChunks<'_, T, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for AlignedChunks<'_, T, N> {}

impl<T: Element, const N: usize> AlignedChunks<'_, T, N> {
    /// The number of chunks.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.elements.len() / N
    }

    /// Whether there is no chunk.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `count` chunks from chunk `first` on; `None` if one of them lies beyond the end.
    ///
    /// ```
    /// use device_std::Chunks;
    ///
    /// let numbers: Vec<u32> = (0..32).collect();
    /// let (before, chunks, _) = numbers.aligned_chunks::<4>();
    /// let part = chunks.part(2, 3).expect("there are more than five chunks");
    /// assert_eq!((part.len(), part.get(0)), (3, chunks.get(2)));
    /// assert_eq!(part.get(0).unwrap()[0] as usize, before.len() + 8);
    /// assert!(part.get(3).is_none() && chunks.part(chunks.len(), 1).is_none());
    /// ```
    #[inline(always)]
    pub fn part(&self, first: usize, count: usize) -> Option<Self> {
        if first > self.len() || count > self.len() - first {
            return None;
        }
        // ALIGNED-CHUNKS-1: no product wraps, because first + count ≤ len / N. The part begins
        // whole chunks behind an aligned element, and has whole chunks.
        let elements = self.elements.get(first * N..)?.get(..count * N)?;
        Some(Self { elements })
    }

    /// Chunk `at`; `None` beyond the end. One load (`ld.global.nc.v4`) for each 16 bytes.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<[T; N]> {
        if at >= self.len() {
            return None;
        }
        // SAFETY: at < len / N, so N · at + N ≤ len.
        let first = unsafe { self.elements.as_ptr().add(at * N) };
        // SAFETY: N elements begin at `first`, aligned (ALIGNED-CHUNKS-1).
        Some(unsafe { read_aligned(first) })
    }
}

/// Reads several elements of an input at once.
pub trait Chunks<T> {
    /// Reads elements `N * at` to `N * at + N - 1`; elements beyond the end are `fill`. One load
    /// (`ld.global.nc.v4`), if the elements have 4, 8 or 16 bytes together and lie aligned to that
    /// size. An input that starts at the start of a buffer is aligned.
    ///
    /// The matching output is [`PerThreadChunk`](crate::PerThreadChunk), in which each thread
    /// writes `N` elements.
    ///
    /// ```
    /// use device_std::Chunks;
    ///
    /// assert_eq!([1, 2, 3, 4, 5].chunk_or::<4>(0, 0), [1, 2, 3, 4]);
    /// assert_eq!([1, 2, 3, 4, 5].chunk_or::<4>(1, 0), [5, 0, 0, 0]);
    /// ```
    ///
    /// It does not build for elements with padding:
    ///
    /// ```compile_fail,E0080
    /// use device_std::bytemuck::{Pod, Zeroable};
    /// use device_std::{Chunks, Element};
    ///
    /// #[derive(Clone, Copy, Element)]
    /// #[repr(C)]
    /// struct Padded<T: Copy> {
    ///     tag: u8,
    ///     number: T,
    /// }
    /// unsafe impl<T: Zeroable + Copy> Zeroable for Padded<T> {}
    /// // Wrong: there are three bytes of padding between a `u8` and a `u32`.
    /// unsafe impl<T: Pod> Pod for Padded<T> {}
    /// let all = [Padded { tag: 1, number: 2_u32 }; 4];
    /// let chunk: [_; 4] = all[..].chunk_or::<4>(0, all[0]);
    /// ```
    fn chunk_or<const N: usize>(&self, at: usize, fill: T) -> [T; N];

    /// Splits the input: elements before the first address that is aligned for a chunk of `N`
    /// elements, the whole chunks from there on, and the rest. Each chunk is read by one load
    /// (`ld.global.nc.v4`) for each 16 bytes, and no chunk's address is tested.
    ///
    /// An input that starts at the start of a buffer has no elements before the chunks. If no
    /// address of an element is aligned for a chunk, all elements are in the first part.
    ///
    /// ```
    /// use device_std::Chunks;
    ///
    /// let numbers: Vec<u32> = (0..11).collect();
    /// let (before, chunks, after) = numbers.aligned_chunks::<4>();
    /// assert_eq!(before.len() + 4 * chunks.len() + after.len(), 11);
    /// let mut sum: u32 = before.iter().chain(after).sum();
    /// for at in 0..chunks.len() {
    ///     sum += chunks.get(at).map_or(0, |chunk| chunk.iter().sum());
    /// }
    /// assert!(sum == 55 && chunks.get(chunks.len()).is_none() && !chunks.is_empty());
    /// ```
    fn aligned_chunks<const N: usize>(&self) -> (&[T], AlignedChunks<'_, T, N>, &[T]);
}

/// The number of elements before the first one that is aligned for a chunk; `len` if no element is
/// known to be.
#[inline(always)]
fn unaligned<T, const N: usize>(address: usize, len: usize) -> usize {
    let alignment = const { alignment::<T, N>() };
    let bytes = address.wrapping_neg() % alignment;
    let size = size_of::<T>();
    if bytes == 0 {
        0
    } else if size > 0 && alignment.is_multiple_of(size) && bytes.is_multiple_of(size) {
        Ord::min(bytes / size, len)
    } else {
        len
    }
}

impl<T: Element> Chunks<T> for [T] {
    #[inline(always)]
    fn chunk_or<const N: usize>(&self, at: usize, fill: T) -> [T; N] {
        const { assert!(N > 0, "a chunk has elements") };
        let whole = self.len() / N;
        if at < whole {
            // SAFETY: N · at + N ≤ len, so the result lies inside the slice.
            let first = unsafe { self.as_ptr().add(at * N) };
            // SAFETY: the slice has `N` elements from `first` on, because N · at + N ≤ len.
            unsafe { read(first) }
        } else if at == whole {
            core::array::from_fn(|k| self.get(whole * N + k).copied().unwrap_or(fill))
        } else {
            [fill; N]
        }
    }

    #[inline(always)]
    fn aligned_chunks<const N: usize>(&self) -> (&[T], AlignedChunks<'_, T, N>, &[T]) {
        const { assert!(N > 0, "a chunk has elements") };
        let (before, rest) = self.split_at(unaligned::<T, N>(self.as_ptr().addr(), self.len()));
        // ALIGNED-CHUNKS-1: `rest` begins at an aligned element, or is empty. An empty one holds no
        // chunk.
        let (elements, after) = rest.split_at(rest.len() / N * N);
        (before, AlignedChunks { elements }, after)
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_at_any_alignment_and_filled_up() {
        let values: Vec<u16> = (0..40).collect();
        for start in 0..9 {
            let values = &values[start..];
            for at in 0..7 {
                let expected: [u16; 8] =
                    core::array::from_fn(|k| values.get(at * 8 + k).copied().unwrap_or(999));
                assert_eq!(values.chunk_or::<8>(at, 999), expected, "{start} {at}");
            }
        }
        assert_eq!(values.chunk_or::<3>(usize::MAX, 7), [7; 3]);
        assert_eq!([0u8; 0].chunk_or::<4>(0, 7), [7; 4]);
    }

    fn split<T: Element + PartialEq + core::fmt::Debug, const N: usize>(values: &[T]) -> [usize; 3] {
        let (before, chunks, after) = values.aligned_chunks::<N>();
        let mut all = before.to_vec();
        for at in 0..chunks.len() {
            all.extend(chunks.get(at).expect("below the length"));
        }
        assert_eq!(chunks.get(chunks.len()), None);
        assert_eq!(chunks.get(usize::MAX), None);
        let count = chunks.len();
        for first in 0..=count {
            let part = chunks.part(first, count - first).expect("inside");
            assert_eq!((part.len(), part.get(0)), (count - first, chunks.get(first)));
            assert!(chunks.part(first, count - first + 1).is_none());
            assert!(chunks.part(first, usize::MAX).is_none());
        }
        assert!(chunks.part(count + 1, 0).is_none() && chunks.part(usize::MAX, 1).is_none());
        all.extend(after);
        assert_eq!(all, values);
        if !chunks.is_empty() {
            assert_eq!(values[before.len()..].as_ptr().addr() % alignment::<T, N>(), 0);
        }
        [before.len(), chunks.len(), after.len()]
    }

    #[test]
    fn aligned_chunks_hold_each_element_once_in_order() {
        let memory: Vec<u128> = (0..20).map(|at| at * 0x0123_4567_89ab_cdef_1357).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&memory);
        for start in 0..20 {
            for len in [0, 1, 15, 16, 17, 100] {
                let [before, chunks, after] = split::<u8, 16>(&bytes[start..][..len]);
                assert_eq!(before, Ord::min(start.next_multiple_of(16) - start, len));
                assert_eq!((chunks, after), ((len - before) / 16, (len - before) % 16));
                split::<u8, 4>(&bytes[start..][..len]);
                split::<u8, 3>(&bytes[start..][..len]);
                // Not each address of an element can be aligned.
                let triples: &[[u8; 3]] = bytemuck::cast_slice(&bytes[start..][..len / 3 * 3]);
                split::<[u8; 3], 4>(triples);
            }
        }
        let words: &[u32] = bytemuck::cast_slice(&memory);
        for start in 0..9 {
            assert_eq!(
                split::<u32, 4>(&words[start..40])[0],
                start.next_multiple_of(4) - start
            );
            assert_eq!(split::<u32, 2>(&words[start..40])[0], start % 2);
            assert_eq!(split::<u32, 3>(&words[start..40])[0], 0);
        }
        // An element that needs more alignment than its chunk's widest piece gives.
        split::<u64, 1>(bytemuck::cast_slice(&memory));
        split::<[u32; 8], 2>(bytemuck::cast_slice(&memory));
    }

    #[test]
    fn chunks_are_written_at_any_alignment() {
        for start in 0..9 {
            let mut memory = [0u8; 32];
            let ptr = memory[start..].as_mut_ptr();
            // SAFETY: `memory` has 16 bytes from `start` on, and nothing else uses it.
            unsafe { write(ptr, [7u8; 16]) };
            assert!(
                memory[..start]
                    .iter()
                    .chain(&memory[start + 16..])
                    .all(|byte| *byte == 0)
            );
            assert_eq!(memory[start..start + 16], [7; 16]);
        }
    }
}
