//! The private fields of [`WriteCombinedBuffer`]. Each function here keeps the invariants, or is
//! `unsafe`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::block::WriteCombinedBlock;
use crate::device::core::DeviceCore;
use crate::order::stream_ref::StreamRef;
use crate::tag::Idle;

/// Owns `len` elements of page-locked memory that the host's processor does not cache
/// (`cuMemHostAlloc` with `CU_MEMHOSTALLOC_WRITECOMBINED`); `P` says which stream they belong to,
/// or [`Idle`]. For uploads: the host writes it, and streams read it.
///
/// The processor gathers writes and sends them to memory in bursts, so the memory needs no room in
/// its caches, and a GPU reads it without asking them. That is worth it only for data that the host
/// writes once, from the first element to the last. A read by the host goes to memory for each
/// element, some hundred times as slow as a read of [`PinnedBuffer`](crate::PinnedBuffer).
/// Therefore the host can only write it, by [`copy_from_slice`](Self::copy_from_slice),
/// [`fill`](Self::fill) and [`write_with`](Self::write_with) of an idle buffer. Memory for
/// downloads is [`PinnedBuffer`](crate::PinnedBuffer): no stream writes this memory.
///
/// A stream's buffer dereferences to a [`PinnedSlice`](crate::PinnedSlice), which uploads
/// ([`copy_to_device`](crate::Stream::copy_to_device), rows too), host functions and, through
/// [`Stream::mapped`](crate::Stream::mapped), kernels of that stream read. Its place is
/// [`WriteCombined`](crate::WriteCombined) of the stream. A buffer moves between streams and the
/// host as all buffers do. A [`Graph`](crate::Graph) keeps it, and
/// [`Graph::host`](crate::Graph::host) lends a [`WriteCombinedView`](crate::WriteCombinedView),
/// which writes it between replays.
///
/// The memory comes from a pool of its own ([`Device::write_combined`](crate::Device)), which
/// [`set_pinned_limit`](crate::Device::set_pinned_limit) does not count. Dropping a buffer gives
/// its block back, and never blocks. The pool reuses or frees a block only after it has seen the
/// block's last event complete.
///
/// Counterexample, for a type of its own: a reference `&mut [T]` could be used while the process's
/// exit handlers unmap this memory, which CUDA has mapped. `PinnedBuffer` lends such references,
/// and maps its memory itself. The end of the process waits for the calls that write this buffer,
/// as it waits for calls of the driver.
///
/// # Hazards prevented
/// [H14](crate::hazards#h14) and [H18](crate::hazards#h18): the host writes only memory that no
/// work uses. [H16](crate::hazards#h16). [H20](crate::hazards#h20), [H21](crate::hazards#h21), as
/// for [`PinnedBuffer`](crate::PinnedBuffer).
///
/// ```
/// # cuda_rt::streams! { Upload; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let upload = gpu.stream::<Upload>()?;
/// let mut frame = gpu.write_combined_from(&[1.0_f32; 1000])?;
/// frame.fill(..10, 2.0)?;
///
/// let frame = upload.adopt(frame)?; // WriteCombinedBuffer<f32, Upload>
/// let mut on_device = upload.alloc_zeroed::<f32>(1000)?;
/// upload.copy_to_device(&frame, &mut on_device)?;
/// let mut frame = upload.release(frame)?.synchronize()?;
/// frame.write_with(.., |at| at as f32)?; // the next frame: the upload is over
/// # assert_eq!(upload.copy_to_vec(&on_device[9..11])?, [2.0, 1.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// WRITE-COMBINED-1. `block` is at least `len` elements long, and owned by nothing else.
// WRITE-COMBINED-2. The first `len` elements are values of `T`, so all their bytes are initialised.
// WRITE-COMBINED-3. Every use by work of a stream is over, or ordered before the present end of the
// stream `at`; if `at` is `None`, every use is over.
// WRITE-COMBINED-4. While `P` is a stream tag, `at` is that stream.
pub struct WriteCombinedBuffer<T, P = Idle> {
    memory: ManuallyDrop<Memory>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

/// The fields of a buffer. Dropping them outside a buffer frees the block.
pub(super) struct Memory {
    /// `None` if there are no bytes.
    pub(super) block: Option<WriteCombinedBlock>,
    /// In elements.
    pub(super) len: usize,
    pub(super) at: Option<StreamRef>,
    pub(super) core: Arc<DeviceCore>,
}

impl<T, P> WriteCombinedBuffer<T, P> {
    /// # Safety
    /// WRITE-COMBINED-1 to WRITE-COMBINED-4 hold for `memory`.
    #[inline]
    pub(super) unsafe fn new(memory: Memory) -> Self {
        Self {
            memory: ManuallyDrop::new(memory),
            marker: PhantomData,
        }
    }

    #[inline]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes the memory out. The caller gives it back to its pool or makes another buffer of it.
    #[inline]
    pub(super) fn into_memory(self) -> Memory {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once: the buffer is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut buffer.memory) }
    }
}

impl<T, P> Drop for WriteCombinedBuffer<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken once: nothing uses the buffer after its drop.
        unsafe { ManuallyDrop::take(&mut self.memory) }.give_back();
    }
}
