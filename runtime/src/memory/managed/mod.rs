//! [`ManagedBuffer`]: an owner of managed memory.

mod def;

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

pub use def::ManagedBuffer;
use def::Memory;

use super::mapped_host::{self, HostUse};
use super::slice::{DANGLING, DeviceSlice};
use super::view::{DeviceView, DeviceViewMut};
use super::{Element, RangeIndex, size_in_bytes};
use crate::device::core::DeviceCore;
use crate::error::{Error, Refused, Result};
use crate::kernel::KernelOutput;
use crate::memory::bundle::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, IdlePlace, Live, Place, StreamTag};
use cuda_rt_driver::{AccessKind, Advice, CallSite, DeviceAddress};

impl<T, P> fmt::Debug for ManagedBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ManagedBuffer({:#x}, {} elements)",
            self.address().0,
            self.memory().len
        )
    }
}

impl<T, P> ManagedBuffer<T, P> {
    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.memory().len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address on the host and on each device; a dangling address if there are no bytes.
    pub(crate) fn address(&self) -> DeviceAddress {
        match &self.memory().block {
            Some(block) => DeviceAddress(block.address().addr().get() as u64),
            None => DANGLING,
        }
    }

    fn base(&self) -> NonNull<T> {
        match &self.memory().block {
            Some(block) => block.address().cast(),
            None => NonNull::dangling(),
        }
    }

    /// Advises CUDA about the use of `range` (`cuMemAdvise`): where its pages should be, and who
    /// will use them. Applies to the whole pages that the range touches, from now on, until it is
    /// undone or the buffer is dropped. Changes no byte, and permits no access that the types do
    /// not permit.
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// # Panics
    /// If the range is not within the buffer.
    ///
    /// ```
    /// use cuda_rt::driver::Advice;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let table = gpu.managed_from(&[1.0_f32; 1000])?;
    /// table.advise(.., Advice::SetReadMostly)?;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn advise(&self, range: impl RangeIndex, advice: Advice) -> Result<()> {
        let range = range.within(self.len());
        let bytes = range.len() * size_of::<T>();
        match &self.memory().block {
            Some(block) if bytes > 0 => block.advise(range.start * size_of::<T>(), bytes, advice),
            _ => Ok(()),
        }
    }

    /// The same memory in another place.
    ///
    /// # Safety
    /// MANAGED-3 and MANAGED-4 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<Q>(self, at: Option<StreamRef>) -> ManagedBuffer<T, Q> {
        let memory = Memory {
            at,
            ..self.into_memory()
        };
        // SAFETY: MANAGED-1 and MANAGED-2 held for `self`. MANAGED-3 and MANAGED-4 hold by this
        // function's contract.
        unsafe { ManagedBuffer::new(memory) }
    }
}

impl<T, P> ManagedBuffer<MaybeUninit<T>, P> {
    /// # Safety
    /// Every element was written, or, if a stream owns the buffer, is written by work already
    /// enqueued in the order of that stream.
    pub(crate) unsafe fn assume_init(self) -> ManagedBuffer<T, P> {
        let memory = self.into_memory();
        // SAFETY: MANAGED-1: `MaybeUninit<T>` has the layout of `T`. MANAGED-2: every element is
        // written by this function's contract, before anything reads it. The place and `at` do not
        // change (MANAGED-3, MANAGED-4).
        unsafe { ManagedBuffer::new(memory) }
    }
}

/// The host's use of idle memory.
impl<T, P> ManagedBuffer<T, P> {
    /// Lends the elements to `body`, on the host, for reading. No call of CUDA is made: pages that
    /// are on a device come to the host as `body` touches them.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13): the buffer is idle, so no work writes it.
    ///
    /// # Errors
    /// [`Error::Driver`] if the process ends, or was forked from the one that opened the device;
    /// `body` has not run then. `body` itself must not fork: a child of the process that reads the
    /// elements is killed by a signal.
    #[track_caller]
    pub fn host<O>(&self, body: impl FnOnce(&[T]) -> O) -> Result<O>
    where
        P: IdlePlace,
    {
        let passed = CallSite::here("ManagedBuffer::host");
        self.while_mapped(passed, AccessKind::Read, || {
            // SAFETY: MANAGED-1 to MANAGED-3: the memory is live, initialised and aligned to a
            // page. `P` is idle (`IdlePlace`): no work of a GPU uses the memory, or, behind a
            // shared lease, none writes it. It stays mapped while this closure runs.
            body(unsafe { std::slice::from_raw_parts(self.base().as_ptr(), self.len()) })
        })
    }

    /// Lends the elements to `body`, on the host, for writing. Otherwise as [`host`](Self::host).
    ///
    /// # Hazards prevented
    /// [H14](crate::hazards#h14): the buffer is idle, so no work uses it.
    ///
    /// # Errors
    /// As [`host`](Self::host).
    #[track_caller]
    pub fn host_mut<O>(&mut self, body: impl FnOnce(&mut [T]) -> O) -> Result<O>
    where
        P: IdlePlace,
    {
        let passed = CallSite::here("ManagedBuffer::host_mut");
        let (base, len) = (self.base(), self.len());
        self.while_mapped(passed, AccessKind::Write, || {
            // SAFETY: as in `host`; the buffer is borrowed uniquely until the closure has run, and
            // an idle buffer that is shared is never borrowed so.
            body(unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) })
        })
    }

    /// Copies the elements to a new `Vec`, on the host.
    ///
    /// # Errors
    /// As [`host`](Self::host).
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Element,
        P: IdlePlace,
    {
        self.host(<[T]>::to_vec)
    }

    /// Runs `body` while managed memory stays mapped, and tells a checker of the access.
    fn while_mapped<O>(&self, passed: CallSite, access: AccessKind, body: impl FnOnce() -> O) -> Result<O> {
        let used = HostUse {
            address: self.base().cast(),
            bytes: self.len() * size_of::<T>(),
            access,
            passed,
        };
        mapped_host::while_mapped(&self.memory().core, used, body)
    }
}

impl<T: Element, D: Live> ManagedBuffer<MaybeUninit<T>, Idle<D>> {
    /// A block of the pool, as its last user left it.
    pub(crate) fn uninit(core: &Arc<DeviceCore>, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len).ok_or(Error::TooLarge {
            during: "Device::managed",
            len,
            element_bytes: size_of::<T>(),
        })?;
        let block = match bytes {
            0 => None,
            _ => Some(core.managed().take(bytes)?),
        };
        let memory = Memory {
            block,
            len,
            at: None,
            core: Arc::clone(core),
        };
        // SAFETY: MANAGED-1: the pool gave the block to this buffer alone. MANAGED-2: any bytes are
        // a `MaybeUninit`. MANAGED-3: the pool gives out only blocks that nothing uses. MANAGED-4
        // demands nothing of `Idle`.
        Ok(unsafe { Self::new(memory) })
    }

    /// Writes `value(0)`, `value(1)` and so on, on the host, and so makes the buffer readable. If
    /// `value` panics, the buffer goes back to its pool.
    ///
    /// # Errors
    /// As [`host`](ManagedBuffer::host); the buffer then goes back to its pool.
    ///
    /// ```
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let squares = gpu.managed_uninit::<usize>(4)?.init_with(|at| at * at)?;
    /// assert_eq!(squares.to_vec()?, [0, 1, 4, 9]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn init_with(mut self, mut value: impl FnMut(usize) -> T) -> Result<ManagedBuffer<T, Idle<D>>> {
        self.host_mut(|elements| {
            for (at, element) in elements.iter_mut().enumerate() {
                element.write(value(at));
            }
        })?;
        // SAFETY: the loop wrote all elements.
        Ok(unsafe { self.assume_init() })
    }
}

// Idle buffers dereference too, as for `DeviceBuffer`: a stream's method then refuses an idle
// buffer through `ReadBy` and `WriteBy`, whose messages say what to do.
impl<T, P: Place> Deref for ManagedBuffer<T, P> {
    type Target = DeviceSlice<T, P>;

    #[inline]
    fn deref(&self) -> &DeviceSlice<T, P> {
        // SAFETY: MANAGED-1 and MANAGED-4 give SLICE-1 for as long as the buffer is borrowed: each
        // device reaches managed memory at its address.
        unsafe { DeviceSlice::from_raw(self.address(), self.len()) }
    }
}

impl<T, P: Place> DerefMut for ManagedBuffer<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DeviceSlice<T, P> {
        // SAFETY: as above, and the buffer is borrowed uniquely (SLICE-2).
        unsafe { DeviceSlice::from_raw_mut(self.address(), self.len()) }
    }
}

impl Memory {
    /// Gives the block of a dropped buffer back, behind the present end of its stream.
    fn give_back(self) {
        let Self { block, at, core, .. } = self;
        match (block, at) {
            (None, _) => {}
            (Some(block), None) => core.managed().give_back(block, Fence::DONE),
            (Some(block), Some(at)) => {
                // MANAGED-3: without a recorded event nothing says when the GPU is done with the
                // block (obligation 4). It is then leaked.
                let block = Leaked::new(block);
                if let Ok(lease) = core.events().record(at, false) {
                    core.managed().give_back(block.take_back(), lease.into());
                }
            }
        }
    }
}

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<T, D: DeviceTag> Bundle for ManagedBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = ManagedBuffer<T, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> ManagedBuffer<T, S> {
        // SAFETY: MANAGED-3 and MANAGED-4 hold by the contract of `attach`: every use is ordered
        // before the present end of `at`, which is the stream `S`.
        unsafe { self.recast(Some(at)) }
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: ManagedBuffer<T, S>) -> Self {
        // SAFETY: MANAGED-3 holds once every use is over. By the contract of `idle_from` the buffer
        // is neither used nor dropped earlier. MANAGED-4 demands nothing of `Idle`.
        unsafe { on.recast(None) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the contract of `view` is SLICE-1 and SLICE-2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address(), self.len()) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the contract of `by_ref` is SLICE-1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address(), self.len()) }
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // If the record of an event unwinds, the memory is leaked.
        let memory = Leaked::new(self.into_memory());
        let fence = fence.share();
        let Memory { block, core, .. } = memory.take_back();
        if let Some(block) = block {
            core.managed().give_back(block, fence);
        }
    }
}

// SAFETY: there is one part, and `S` owns it.
unsafe impl<T, S: StreamTag> OwnedBy<S> for ManagedBuffer<T, S> {
    type Idle = ManagedBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: as in `idle_from`: MANAGED-3 holds once every use is over, and by the contract of
        // `detach` the buffer is neither used nor dropped earlier.
        unsafe { self.recast(None) }
    }
}

// SAFETY: the buffer owns its memory, and belongs to `S` (MANAGED-1, MANAGED-4).
unsafe impl<T: Element, S: StreamTag> KernelOutput<S, T> for ManagedBuffer<MaybeUninit<T>, S> {
    type Written = ManagedBuffer<T, S>;
    type Error = Refused<Self>;

    #[inline]
    fn memory(&self) -> [u64; 2] {
        [self.address().0, self.len() as u64]
    }

    #[inline]
    unsafe fn written(self) -> ManagedBuffer<T, S> {
        // SAFETY: each element is written in the order of `S` by this function's contract, and `S`
        // is the buffer's stream.
        unsafe { self.assume_init() }
    }

    fn refused(self, error: Error) -> Refused<Self> {
        Refused { error, value: self }
    }
}
