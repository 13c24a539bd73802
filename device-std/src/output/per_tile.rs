use core::marker::PhantomData;

use crate::block::{Dimensions, Lane, Tile};
use crate::chunk;
use crate::element::Element;
use crate::host_thread::HostThread;
use crate::output::whole::whole_output;

/// An output of tiles, each written by the block that has taken it ([`LookBack`](crate::LookBack)).
/// A thread writes `K` chunks of `N` elements, at the positions that [`Tile::position`] says: the
/// threads of a warp write elements that follow each other.
///
/// A tile has `K` · `N` elements for each thread of a block. The launch has a block for each tile:
/// `Grid1::covering(len.div_ceil(K * N))`.
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::{LookBack, PerTile, Sum};
///
/// /// Numbers the elements, in the order of the tiles.
/// fn numbers(
///     mut block: Block,
///     mut seen: BlockUninit<[u32; 3], 8>,
///     look_back: LookBack<u64>,
///     output: PerTile<u32, 4, 1>,
/// ) {
///     let count = 4 * block.size() as u32;
///     let (before, (), tile) =
///         look_back.scan::<Sum, u32, _, _, 8>(&mut block, &mut seen, |_, _| (count, ()));
///     block.threads(|thread| {
///         let first = before + 4 * thread.index() as u32;
///         output.set(&tile, thread, [[first, first + 1, first + 2, first + 3]]);
///     });
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element).
///
/// # Invariants
/// - PER-TILE-1. `ptr` is valid for writes of `len` elements, and only this launch uses them.
/// - PER-TILE-2. The chunks of distinct threads have no element in common: each block has one tile
///   of its own (LOOK-BACK-2), all blocks have equally many threads (BLOCK-1), and `Tile::position`
///   tells the chunks of a tile apart. No reference to an element exists. On the host, an element
///   opens on one thread of the host only (`HostThread`).
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// use device_std::{LookBack, PerTile, Sum};
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The number of its tile in each element.
/// #[kernel(block = 32)]
/// fn tiles(
///     mut block: Block,
///     mut seen: BlockUninit<[u32; 3], 1>,
///     look_back: LookBack<u64>,
///     output: PerTile<u32, 2, 3>,
/// ) {
///     assert!(output.len() == 500 && !output.is_empty());
///     let (before, (), tile) =
///         look_back.scan::<Sum, u32, _, _, 1>(&mut block, &mut seen, |_, _| (1, ()));
///     block.threads(|thread| output.set(&tile, thread, [[before; 2]; 3]));
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(500)?;
/// let grid = cuda_rt::Grid1::covering(500_usize.div_ceil(6));
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(3))?;
/// tiles(&compute, grid, &mut words, &mut output)?;
/// let output = compute.copy_to_vec(&output)?;
/// assert!(output.iter().zip(0..).all(|(tile, at)| *tile == at / (32 * 6)));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct PerTile<'a, T, const N: usize, const K: usize> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: PER-TILE-2: through `&PerTile`, a thread reaches only its own elements, by value.
unsafe impl<T: Element, const N: usize, const K: usize> Sync for PerTile<'_, T, N, K> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: PER-TILE-2: it opens only with a lane, which block-level code never has.
unsafe impl<T: Element, const N: usize, const K: usize> crate::PhaseSafe for PerTile<'_, T, N, K> {}

impl<T: Element, const N: usize, const K: usize> PerTile<'_, T, N, K> {
    const FITS: () = assert!(
        N >= 1 && N <= 64 && K >= 1 && K <= 1024,
        "a thread has 1 to 1024 chunks of 1 to 64 elements"
    );

    /// The word of the type in a layout table. Distinct numbers give distinct words, because `FITS`
    /// bounds them.
    pub(crate) const WAY: u64 = {
        let () = Self::FITS;
        crate::rt::packed(8, N << 16 | K)
    };

    whole_output!("PER-TILE-1.", Self::FITS);

    /// Writes the thread's chunks of a tile: by one store for each 16 bytes, if the output begins
    /// at a multiple of 16 bytes, or of the bytes of a chunk. Elements beyond the end of the output
    /// are not written.
    #[inline(always)]
    pub fn set<D: Dimensions>(&self, tile: &Tile<'_>, lane: &Lane<'_, D>, values: [[T; N]; K]) {
        self.host_thread.check();
        let position = |k: usize| tile.position::<N, K>(lane, k);
        let is_aligned = self
            .ptr
            .addr()
            .is_multiple_of(const { chunk::alignment::<T, N>() });
        let last = position(K - 1);
        if is_aligned && last < self.len && self.len - last >= N {
            // Loops over `into_iter()` keep the arrays in local memory.
            for (k, values) in values.iter().enumerate() {
                // SAFETY: PER-TILE-1: the last chunk ends inside of the output, and this one before
                // it, or with it.
                let first = unsafe { self.ptr.add(position(k)) };
                // SAFETY: as above, N elements begin at `first`. It is `ptr` plus whole chunks,
                // which are multiples of the alignment. PER-TILE-2: only this thread uses the
                // elements.
                unsafe { chunk::write_aligned(first, *values) };
            }
            return;
        }
        for (k, values) in values.iter().enumerate() {
            for (q, value) in values.iter().enumerate() {
                let at = position(k) + q;
                if at < self.len {
                    // SAFETY: PER-TILE-1: `at` was compared with `len`.
                    let element = unsafe { self.ptr.add(at) };
                    // SAFETY: PER-TILE-2: only this thread uses the element.
                    unsafe { *element = *value };
                }
            }
        }
    }
}
