//! Several elements at once: one load or store of up to 16 bytes where memory is aligned for it.

use crate::element::Element;

/// 16 bytes that are moved at once. A vector on the device: of several words LLVM would make
/// several instructions again where another path does the same one by one.
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

/// Whether `[T; N]` is moved as `W`s, the widest that it is made of, and the address aligned for
/// them.
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

/// The same address, of which LLVM does not know that it is: else it would share some of the loads
/// and stores of the path for memory that is not aligned with the path for memory that is, and make
/// the latter more than one.
#[inline(always)]
fn apart<T>(ptr: *mut T) -> *mut T {
    #[cfg(target_arch = "nvptx64")]
    return {
        let same: *mut T;
        // SAFETY: moves a register.
        unsafe {
            core::arch::asm!("mov.b64 {}, {};", out(reg64) same, in(reg64) ptr, options(pure, nomem, nostack));
        }
        same
    };
    #[cfg(not(target_arch = "nvptx64"))]
    ptr
}

/// # Safety
/// `from` is valid for reads, and `to` for writes, of `[T; N]`, which is made of `W`s; they do not
/// overlap, and `move_piece` is sound for each piece of them.
#[inline(always)]
unsafe fn each_piece<W, T, const N: usize>(
    from: *const T,
    to: *mut T,
    move_piece: impl Fn(*const W, *mut W),
) {
    let (from, to) = (from.cast::<W>(), to.cast::<W>());
    for at in 0..size_of::<[T; N]>() / size_of::<W>() {
        // SAFETY: inside the `N` elements.
        let from = unsafe { from.add(at) };
        // SAFETY: as above.
        let to = unsafe { to.add(at) };
        move_piece(from, to);
    }
}

/// # Safety
/// `ptr` is valid for reads of `N` elements, and [`moves_as`] holds for its address.
#[inline(always)]
unsafe fn read_as<W: Copy, T: Element, const N: usize>(ptr: *const T) -> [T; N] {
    let mut values = [T::zeroed(); N];
    let move_piece = |from: *const W, to: *mut W| {
        // SAFETY: valid, and aligned as the caller says.
        let piece = unsafe { from.read() };
        // SAFETY: a piece of `values`.
        unsafe { to.write_unaligned(piece) };
    };
    // SAFETY: the caller's elements, and as many of our own.
    unsafe { each_piece::<W, T, N>(ptr, values.as_mut_ptr(), move_piece) };
    values
}

/// # Safety
/// `ptr` is valid for writes of `N` elements, and [`moves_as`] holds for its address.
#[inline(always)]
unsafe fn write_as<W: Copy, T: Element, const N: usize>(ptr: *mut T, values: [T; N]) {
    let move_piece = |from: *const W, to: *mut W| {
        // SAFETY: a piece of `values`.
        let piece = unsafe { from.read_unaligned() };
        // SAFETY: valid, and aligned as the caller says.
        unsafe { to.write(piece) };
    };
    // SAFETY: as many of our own, and the caller's elements.
    unsafe { each_piece::<W, T, N>(values.as_ptr(), ptr, move_piece) };
}

/// Reads `N` elements.
///
/// # Safety
/// `ptr` is valid for reads of `N` elements, and aligned for one.
#[inline(always)]
pub(crate) unsafe fn read<T: Element, const N: usize>(ptr: *const T) -> [T; N] {
    let address = ptr.addr();
    if moves_as::<Words4, T, N>(address) {
        // SAFETY: valid, and aligned as was just seen.
        unsafe { read_as::<Words4, T, N>(ptr) }
    } else if moves_as::<Words2, T, N>(address) {
        // SAFETY: as above.
        unsafe { read_as::<Words2, T, N>(ptr) }
    } else if moves_as::<u32, T, N>(address) {
        // SAFETY: as above.
        unsafe { read_as::<u32, T, N>(ptr) }
    } else {
        // SAFETY: valid, and aligned for one element.
        unsafe { read_as::<T, T, N>(apart(ptr.cast_mut())) }
    }
}

/// Writes `N` elements.
///
/// # Safety
/// `ptr` is valid for writes of `N` elements, aligned for one, and no one else uses them.
#[inline(always)]
pub(crate) unsafe fn write<T: Element, const N: usize>(ptr: *mut T, values: [T; N]) {
    let address = ptr.addr();
    if moves_as::<Words4, T, N>(address) {
        // SAFETY: valid, and aligned as was just seen.
        unsafe { write_as::<Words4, T, N>(ptr, values) }
    } else if moves_as::<Words2, T, N>(address) {
        // SAFETY: as above.
        unsafe { write_as::<Words2, T, N>(ptr, values) }
    } else if moves_as::<u32, T, N>(address) {
        // SAFETY: as above.
        unsafe { write_as::<u32, T, N>(ptr, values) }
    } else {
        // SAFETY: valid, and aligned for one element.
        unsafe { write_as::<T, T, N>(apart(ptr), values) }
    }
}

/// Reads several elements of an input at once.
pub trait Chunks<T> {
    /// Elements `N * at` to `N * at + N - 1`, in one load where they are 4, 8 or 16 bytes and lie
    /// aligned (`ld.global.nc.v4`), as they do from the start of a buffer; elements beyond the end
    /// are `fill`.
    ///
    /// It goes with [`PerThreadChunk`](crate::PerThreadChunk), of which each thread writes as many.
    fn chunk_or<const N: usize>(&self, at: usize, fill: T) -> [T; N];
}

impl<T: Element> Chunks<T> for [T] {
    #[inline(always)]
    fn chunk_or<const N: usize>(&self, at: usize, fill: T) -> [T; N] {
        const { assert!(N > 0, "a chunk has elements") };
        let whole = self.len() / N;
        if at < whole {
            // SAFETY: N · at + N ≤ len.
            let first = unsafe { self.as_ptr().add(at * N) };
            // SAFETY: in bounds, as above.
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
            // SAFETY: 16 bytes from `start` lie inside.
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
