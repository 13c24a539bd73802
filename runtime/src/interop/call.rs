//! [`ForeignCall`]: another library's call on a stream of this crate.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::error::Result;
use crate::memory::{DeviceSlice, PinnedSlice};
use crate::stream::Stream;
use crate::tag::{ReadBy, StreamTag, WriteBy};
use cuda_rt_driver::{DeviceAddress, ForeignUse, RawStream};

/// A library's call that is not enqueued yet, and the memory that it will use. [`Stream::foreign`]
/// makes it.
///
/// Until the call is enqueued, the memory is borrowed as the call will use it. So an input that is
/// also an output does not compile ([H29](crate::hazards#h29)), and neither does memory of another
/// stream ([H01](crate::hazards#h01), [H03](crate::hazards#h03)).
///
/// A library adds two vectors into a third:
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::driver::{Driver, DriverResult, RawStream};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let a = compute.alloc_from_slice(&[1_u32, 2, 3, 4])?;
/// let host = compute.adopt(gpu.pinned_from(&[5_u32, 6])?)?;
/// let mut b = compute.alloc_zeroed::<u32>(6)?;
/// let (first, second) = (b.address(), b[4..].address());
/// let (from, pinned) = (a.address(), host.address());
///
/// // Borrowed until `enqueue`: `reads(&b)` beside `writes(&mut b)` would not compile.
/// let call = compute.foreign("gather").reads(&a).reads_pinned(&host).writes(&mut b);
/// let library = |stream: RawStream| -> DriverResult<()> {
///     // SAFETY: both are live, of 16 bytes, and stated below.
///     unsafe { gpu.driver().copy(first, from, 16, stream) }?;
///     // SAFETY: both are live, of 8 bytes, and stated below.
///     unsafe { gpu.driver().copy_to_device(second, pinned.cast(), 8, stream) }
/// };
/// // SAFETY: two copies into `b`, from `a` and `host`, on the stream that `library` gets.
/// unsafe { call.enqueue(library) }?.expect("the copies are valid");
/// assert_eq!(compute.copy_to_vec(&b)?, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "nothing is enqueued before `enqueue`"]
pub struct ForeignCall<'a, S> {
    stream: &'a Stream<S>,
    name: &'static str,
    uses: Vec<ForeignUse>,
    memory: PhantomData<&'a mut ()>,
}

impl<S> fmt::Debug for ForeignCall<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCall")
            .field("name", &self.name)
            .field("uses", &self.uses)
            .finish_non_exhaustive()
    }
}

impl<S: StreamTag> Stream<S> {
    /// Starts the description of a call called `name` that a library will make on this stream.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let a = compute.alloc_zeroed::<f32>(64)?;
    /// let mut b = compute.alloc_zeroed::<f32>(64)?;
    /// let (from, to, driver) = (a.address(), b.address(), gpu.driver());
    /// // SAFETY: both are live, of 256 bytes, and borrowed below for the stream that it is given.
    /// let library = |stream| unsafe { driver.copy(to, from, 256, stream) };
    /// let call = compute.foreign("copy").reads(&a).writes(&mut b);
    /// // SAFETY: one copy from `a` to `b` on the stream that it is given; any bytes are an `f32`.
    /// unsafe { call.enqueue(library) }?.expect("the copy is valid");
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn foreign(&self, name: &'static str) -> ForeignCall<'_, S> {
        ForeignCall {
            stream: self,
            name,
            // As many as most calls have: a workspace, two inputs and an output.
            uses: Vec::with_capacity(4),
            memory: PhantomData,
        }
    }

    /// CUDA's handle of the stream (`CUstream`). It is a number: it keeps nothing alive, and a use
    /// takes `unsafe`. To enqueue work on memory of this crate, use [`foreign`](Self::foreign).
    ///
    /// Other code may enqueue work with the handle, which this crate does not see. So from this
    /// call on the stream makes each record and wait, also
    /// [those that are redundant](crate::Device::keep_redundant_edges).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (compute, again) = (gpu.stream::<Compute>()?, gpu.stream::<Compute>()?);
    /// assert_eq!(compute.raw(), again.raw()); // one tag is one CUDA stream
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn raw(&self) -> RawStream {
        self.at().expose()
    }
}

impl<'a, S: StreamTag> ForeignCall<'a, S> {
    fn uses(mut self, address: DeviceAddress, bytes: usize, writes: bool) -> Self {
        if bytes > 0 {
            self.uses.push(ForeignUse {
                address,
                bytes,
                writes,
            });
        }
        self
    }

    #[cfg(feature = "cust")]
    pub(crate) fn core(&self) -> &crate::device::core::DeviceCore {
        self.stream.core()
    }

    /// States memory that the call reads.
    pub fn reads<T, P: ReadBy<S>>(self, memory: &'a DeviceSlice<T, P>) -> Self {
        self.uses(memory.address(), memory.len() * size_of::<T>(), false)
    }

    /// States memory that the call writes, and may read.
    pub fn writes<T, P: WriteBy<S>>(self, memory: &'a mut DeviceSlice<T, P>) -> Self {
        self.uses(memory.address(), memory.len() * size_of::<T>(), true)
    }

    /// States pinned memory that the call reads, in the order of the stream.
    pub fn reads_pinned<T, P: ReadBy<S>>(self, memory: &'a PinnedSlice<T, P>) -> Self {
        let address = DeviceAddress(memory.address().addr().get() as u64);
        self.uses(address, memory.len() * size_of::<T>(), false)
    }

    /// States pinned memory that the call writes, and may read, in the order of the stream.
    pub fn writes_pinned<T, P: WriteBy<S>>(self, memory: &'a mut PinnedSlice<T, P>) -> Self {
        let address = DeviceAddress(memory.address().addr().get() as u64);
        self.uses(address, memory.len() * size_of::<T>(), true)
    }

    /// Runs `body`, which enqueues the call on the stream that it gets. The device's context is
    /// current, and the thread is in relaxed capture mode. The host does not wait.
    ///
    /// A checker that follows the device is told which memory the call uses, and trusts the
    /// statement.
    ///
    /// An error is told to subscribers of `tracing` before this function returns. A library that
    /// keeps a lock meanwhile, for example of its workspace, calls
    /// [`hold_events`](crate::observability::hold_events) before it takes the lock.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01)–[H03](crate::hazards#h03), [H29](crate::hazards#h29),
    /// [H36](crate::hazards#h36), for the stated memory.
    ///
    /// # Safety
    /// 1. All work that `body` enqueues is in the order of that stream. `body` enqueues it there,
    ///    or on other streams that wait for that stream first, and that the stream waits for before
    ///    `body` returns. This holds also if `body` panics or fails.
    /// 2. That work reads only memory stated by `reads` or `writes`, and writes only memory stated
    ///    by `writes`, in bounds. It leaves values of the element type there. Its own memory,
    ///    workspaces and arguments stay valid until it is over. In a capture they stay valid until
    ///    the graph is dropped, because the work runs at each launch.
    /// 3. `body` does not destroy the stream, and does not begin or end a capture on it. After
    ///    `body` returns, its code uses neither the stream nor the memory.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the context cannot be made current, or an earlier
    /// ordering could not be made. `body` has then not run. The errors of `body` are in its result.
    #[track_caller]
    pub unsafe fn enqueue<O>(self, body: impl FnOnce(RawStream) -> O) -> Result<O> {
        // `make` counts the work: `body` enqueues it before it returns.
        let stream = self.stream.at().handle();
        let (body, output) = (Cell::new(Some(body)), Cell::new(None));
        let run = || output.set(body.take().map(|body| body(stream)));
        self.stream
            .call(self.name)
            .make(|driver, at| driver.foreign(self.name, at, &self.uses, &run))?;
        Ok(output
            .take()
            .expect("a driver runs the body, or returns an error"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use cuda_rt_simulator::SimConfig;

    crate::streams! { Compute; }

    #[test]
    fn a_driver_is_told_what_is_used_in_bytes() {
        Device::simulated(SimConfig::default(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let a = compute.alloc_zeroed::<u32>(10).unwrap();
            let mut b = compute.alloc_zeroed::<[u8; 3]>(5).unwrap();
            let host = compute.adopt(gpu.pinned::<u64>(2).unwrap()).unwrap();
            let (at, to) = (a.address().0, b.address());
            let call = compute
                .foreign("test")
                .reads(&a[2..5])
                .reads(&a[3..3])
                .writes(&mut b)
                .reads_pinned(&host);
            let host = DeviceAddress(host.address().addr().get() as u64);
            let told = [
                (DeviceAddress(at + 8), 12, false),
                (to, 15, true),
                (host, 16, false),
            ];
            let told = told.map(|(address, bytes, writes)| ForeignUse {
                address,
                bytes,
                writes,
            });
            assert_eq!(call.uses, told);
        })
        .unwrap();
    }
}
