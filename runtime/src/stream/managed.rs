//! Prefetches and fills of managed memory.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::error::Result;
use crate::memory::{Element, ManagedBuffer, RangeIndex};
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_driver::Location;

/// Managed memory.
impl<S: StreamTag> Stream<S> {
    /// Moves the pages of `range` to the device or the host, ahead of their use
    /// (`cuMemPrefetchAsync`). Stream-ordered. Without it the pages move one by one, when a kernel
    /// or the host first touches them, which takes much longer.
    ///
    /// The bytes and the owner stay the same: for the host, prefetch, release and wait.
    ///
    /// A capture takes no prefetch: CUDA does not record it.
    ///
    /// # Hazards prevented
    /// [H21](crate::hazards#h21): the memory is neither freed nor reused before the pages have
    /// moved.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    ///
    /// # Panics
    /// If the range is not within the buffer.
    ///
    /// ```
    /// use cuda_rt::driver::Location;
    ///
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut data = compute.adopt(gpu.managed_from(&[1.0_f32; 1000])?)?;
    /// compute.prefetch(&data, .., Location::Device)?;
    /// compute.fill(&mut data[..500], 2.0)?;
    /// compute.prefetch(&data, ..500, Location::Host)?;
    /// let data = compute.release(data)?.synchronize()?;
    /// data.host(|data| assert_eq!(data[499..501], [2.0, 1.0]))?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn prefetch<T>(
        &self,
        memory: &ManagedBuffer<T, S>,
        range: impl RangeIndex,
        to: Location,
    ) -> Result<()>
    where
        S::Device: Live,
    {
        let call = self.call("Stream::prefetch");
        let range = range.within(memory.len());
        let bytes = range.len() * size_of::<T>();
        let start = memory.address().0 as usize + range.start * size_of::<T>();
        match NonNull::new(std::ptr::with_exposed_provenance_mut(start)) {
            Some(start) if bytes > 0 => call.make(|driver, at| {
                // SAFETY: MANAGED-1: the range is live managed memory. MANAGED-3: the memory
                // belongs to this stream, and is freed only behind work that the stream holds. A
                // stream of a live device is not captured.
                unsafe { driver.prefetch(start, bytes, to, at) }
            }),
            _ => Ok(()),
        }
    }

    /// Writes `value` to every element of uninitialised managed memory, and so makes the buffer
    /// readable (`cuMemsetD8Async` and its wider and 2-D forms). Stream-ordered: the GPU writes, so
    /// the pages begin on the GPU.
    ///
    /// # Hazards prevented
    /// [H39](crate::hazards#h39).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); the buffer then goes back to its pool.
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let data = compute.adopt(gpu.managed_uninit::<f32>(4)?)?;
    /// let data = compute.init_managed_filled(data, 2.5)?; // ManagedBuffer<f32, Compute>
    /// assert_eq!(compute.release(data)?.synchronize()?.to_vec()?, [2.5; 4]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_managed_filled<T: Element>(
        &self,
        buffer: ManagedBuffer<MaybeUninit<T>, S>,
        value: T,
    ) -> Result<ManagedBuffer<T, S>> {
        let call = self.call("Stream::init_managed_filled");
        self.raw_fill(&call, buffer.address(), bytemuck::bytes_of(&value), buffer.len())?;
        // SAFETY: every element is written in this stream's order.
        Ok(unsafe { buffer.assume_init() })
    }
}
