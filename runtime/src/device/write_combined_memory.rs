//! Write-combined memory from the device's pool.

use crate::device::Device;
use crate::error::Result;
use crate::memory::{Element, WriteCombinedBuffer};
use crate::tag::{Idle, Live};

/// Write-combined memory, for uploads that the host writes once and never reads. For all other
/// copies [`pinned`](Self::pinned) memory is better.
impl<D: Live> Device<D> {
    /// `len` zeroed elements of write-combined memory from the device's pool (`cuMemHostAlloc`,
    /// `CU_MEMHOSTALLOC_WRITECOMBINED`, portable). The host writes the zeros. Blocks only if the
    /// pool has no block of that size whose last use is over.
    ///
    /// Whether an upload is faster than from [`pinned`](Self::pinned) memory depends on the
    /// machine: measure it.
    ///
    /// # Errors
    /// [`Error::Pinned`](crate::Error::Pinned) if no memory is that large, and
    /// [`Error::Driver`](crate::Error::Driver).
    #[track_caller]
    pub fn write_combined<T: Element>(&self, len: usize) -> Result<WriteCombinedBuffer<T, Idle<D>>> {
        WriteCombinedBuffer::written(self.core(), len, "Device::write_combined", |_| T::zeroed())
    }

    /// Like [`write_combined`](Self::write_combined), with a copy of `source`. Nothing else writes
    /// the memory.
    ///
    /// # Errors
    /// As [`write_combined`](Self::write_combined).
    #[track_caller]
    pub fn write_combined_from<T: Element>(&self, source: &[T]) -> Result<WriteCombinedBuffer<T, Idle<D>>> {
        let during = "Device::write_combined_from";
        WriteCombinedBuffer::written(self.core(), source.len(), during, |at| source[at])
    }

    /// Like [`write_combined`](Self::write_combined), with `value(0)`, `value(1)` and so on.
    /// Nothing else writes the memory. If `value` panics, the memory goes back to its pool.
    ///
    /// # Errors
    /// As [`write_combined`](Self::write_combined).
    ///
    /// ```
    /// # cuda_rt::streams! { Upload; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let upload = gpu.stream::<Upload>()?;
    /// let ramp = upload.adopt(gpu.write_combined_with(4, |at| at as f32)?)?;
    /// let ramp = upload.init_from_host(upload.alloc_uninit(4)?, &ramp)?;
    /// assert_eq!(upload.copy_to_vec(&ramp)?, [0.0, 1.0, 2.0, 3.0]);
    ///
    /// let mut later = gpu.write_combined::<f32>(4)?; // zeros, written before each upload
    /// later.copy_from_slice(..2, &[1.0, 2.0])?;
    /// assert_eq!(later.len(), 4);
    /// drop(later);
    /// gpu.trim_write_combined(); // the pool gives the blocks back
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn write_combined_with<T: Element>(
        &self,
        len: usize,
        value: impl FnMut(usize) -> T,
    ) -> Result<WriteCombinedBuffer<T, Idle<D>>> {
        WriteCombinedBuffer::written(self.core(), len, "Device::write_combined_with", value)
    }

    /// Frees unused write-combined memory, and returns the number of bytes (`cuMemFreeHost`, which
    /// may block until the device has no work). Memory in use, and memory whose last use was not
    /// seen complete, stays.
    pub fn trim_write_combined(&self) -> usize {
        self.core().write_combined().trim()
    }
}
