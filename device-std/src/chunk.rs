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

/// Whether `[T; N]` is moved in pieces of type `W`: `W` is the widest piece whose size divides the
/// array's size, and the address is aligned for it.
#[inline(always)]
fn moves_as<W, T, const N: usize>(address: usize) -> bool {
    let widest = const {
        let bytes = size_of::<[T; N]>();
        if bytes.is_multiple_of(16) {
            16
        } else if bytes.is_multiple_of(8) {
            8
        } else {
            4
        }
    };
    size_of::<W>() == widest
        && size_of::<[T; N]>().is_multiple_of(widest)
        && align_of::<T>() <= align_of::<W>()
        && address.is_multiple_of(align_of::<W>())
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
