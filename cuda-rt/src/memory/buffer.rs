use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::resource::{OwnedBy, Resource};
use super::slice::{DANGLING, DeviceSlice};
use super::view::{DeviceView, DeviceViewMut};
use super::{Element, size_in_bytes};
use crate::core::DeviceCore;
use crate::driver::DeviceAddress;
use crate::error::{During, Result};
use crate::fence::{Fence, StreamAt};
use crate::place::{DeviceTag, Idle, StreamTag};

/// Owns `len` elements of device memory; `P` says which stream they belong to, or [`Idle`].
///
/// On a stream it dereferences to [`DeviceSlice`], which kernels and copies of that stream take. Idle it does not: it must
/// be [acquired](crate::Stream::acquire) first. It moves between streams through a [`Handoff`](crate::Handoff) only.
///
/// Dropping it frees in the order of the stream that it last belonged to (`cuMemFreeAsync`), after all work that uses
/// it, and does not block (H21).
///
/// # Hazards prevented
/// H01–H06, H11, H21, H22, H36: see [`Stream::release`](crate::Stream::release).
///
/// # Invariants
/// B1. `address` is that of an allocation of `len` elements that nothing else owns; dangling where they are 0 bytes.
/// B2. Every use of it that is enqueued is ordered before the present end of the stream `at`, or is over; or the core is broken.
/// B3. While `P` is a stream tag, `at` is that stream.
pub struct DeviceBuffer<T, P = Idle> {
    address: DeviceAddress,
    len: usize,
    at: StreamAt,
    core: Arc<DeviceCore>,
    marker: PhantomData<(T, fn(P) -> P)>,
}

impl<T, P> fmt::Debug for DeviceBuffer<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({:#x}, {} elements)", self.address.0, self.len)
    }
}

impl<T, P> DeviceBuffer<T, P> {
    /// Length in elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.address
    }

    /// # Safety
    /// B1 to B3, but for the address of 0 bytes.
    pub(crate) unsafe fn from_raw_at(
        core: &Arc<DeviceCore>,
        at: StreamAt,
        address: DeviceAddress,
        len: usize,
    ) -> Self {
        let empty = len == 0 || size_of::<T>() == 0;
        Self {
            address: if empty { DANGLING } else { address },
            len,
            at,
            core: Arc::clone(core),
            marker: PhantomData,
        }
    }

    /// Drops all but the memory, which the caller has taken.
    pub(crate) fn forget_memory(mut self) {
        self.address = DANGLING;
    }

    /// Where the memory is freed if no stream acquires it again: where it was, but for an adopted stream, which may be gone by
    /// then. The reaper serves as well once every use is over, which is when anyone frees there.
    #[inline]
    fn at_when_idle(&self) -> StreamAt {
        if self.at.id.is_adopted() {
            self.core.reaper()
        } else {
            self.at
        }
    }

    /// The same memory as another type or of another place.
    ///
    /// # Safety
    /// `U` has the size of `T`, and the memory may be read as `U`; B2 and B3 hold for `Q` and `at`.
    #[inline]
    unsafe fn recast<U, Q>(self, at: StreamAt) -> DeviceBuffer<U, Q> {
        let old = std::mem::ManuallyDrop::new(self);
        // SAFETY: `old` is not dropped, so the reference count moves with this copy.
        let core = unsafe { std::ptr::read(&old.core) };
        DeviceBuffer {
            address: old.address,
            len: old.len,
            at,
            core,
            marker: PhantomData,
        }
    }
}

impl<T, S> DeviceBuffer<MaybeUninit<T>, S> {
    /// Allocates on the stream `at`.
    pub(crate) fn uninit(
        core: &Arc<DeviceCore>,
        at: StreamAt,
        len: usize,
        during: &'static str,
    ) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len, during)?;
        let address = if bytes == 0 {
            DANGLING
        } else {
            // SAFETY: the core keeps its streams, and the size is not 0.
            unsafe { core.driver().alloc(bytes, at.raw) }.during(during)?
        };
        Ok(Self {
            address,
            len,
            at,
            core: Arc::clone(core),
            marker: PhantomData,
        })
    }

    /// Claims that all of it has been written, or is before anything enqueued later reads it.
    ///
    /// Rarely needed: [`Stream::init_from`](crate::Stream::init_from), [`init_from_host`](crate::Stream::init_from_host) and
    /// [`init_filled`](crate::Stream::init_filled) write and convert in one step.
    ///
    /// # Safety
    /// Work that is already in the order of this buffer's stream writes every element.
    pub unsafe fn assume_init(self) -> DeviceBuffer<T, S>
    where
        T: Element,
    {
        let at = self.at;
        // SAFETY: `MaybeUninit<T>` has the size of `T`; the caller proves the rest.
        unsafe { self.recast(at) }
    }
}

impl<T, S: StreamTag> Deref for DeviceBuffer<T, S> {
    type Target = DeviceSlice<T, S>;

    #[inline]
    fn deref(&self) -> &DeviceSlice<T, S> {
        // SAFETY: B1 and B3 give S1 for as long as the buffer is borrowed.
        unsafe { DeviceSlice::from_raw(self.address, self.len) }
    }
}

impl<T, S: StreamTag> DerefMut for DeviceBuffer<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DeviceSlice<T, S> {
        // SAFETY: as above, and the buffer is borrowed uniquely (S2).
        unsafe { DeviceSlice::from_raw_mut(self.address, self.len) }
    }
}

impl<T, P> Drop for DeviceBuffer<T, P> {
    fn drop(&mut self) {
        if self.address == DANGLING {
            return;
        }
        // Where an ordering could not be made, B2 may not hold, and the memory is leaked.
        if let Ok(driver) = self.core.ordered() {
            // SAFETY: B1 and B2: every use is ordered before this place in `at`, which the core keeps. An error leaks.
            let _ = unsafe { driver.free(self.address, self.at.raw) };
        }
    }
}

// SAFETY: one part, which every method converts; `&` gives no way to write.
unsafe impl<T, D: DeviceTag> Resource for DeviceBuffer<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = DeviceBuffer<T, S>;
    type View<'v, S: StreamTag> = DeviceViewMut<'v, T, S>;
    type Ref<'v, S: StreamTag> = DeviceView<'v, T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamAt) -> DeviceBuffer<T, S> {
        // SAFETY: the caller has ordered every use before the present end of `at`, which is `S`.
        unsafe { self.recast(at) }
    }

    #[inline]
    unsafe fn back<S: StreamTag>(on: DeviceBuffer<T, S>) -> Self {
        let at = on.at_when_idle();
        // SAFETY: B2 holds once every use is over, and the caller uses and drops it no earlier; B3 asks nothing of `Idle`.
        unsafe { on.recast(at) }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> DeviceViewMut<'v, T, S> {
        // SAFETY: the caller proves S1 and S2 for `'v` and `S`.
        unsafe { DeviceViewMut::new(self.address, self.len) }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> DeviceView<'v, T, S> {
        // SAFETY: the caller proves S1 for `'v` and `S`.
        unsafe { DeviceView::new(self.address, self.len) }
    }

    unsafe fn retire(mut self, fence: &mut Fence) {
        let reaper = self.core.reaper();
        match fence.wait_on(reaper) {
            // B2 holds for the reaper from here on, and the drop frees there.
            Ok(()) => self.at = reaper,
            // A failed wait is not a finished wait (DESIGN.md §5.4): the memory is leaked, and the device is not.
            Err(_) => self.address = DANGLING,
        }
    }
}

// SAFETY: one part, owned by `S`.
unsafe impl<T, S: StreamTag> OwnedBy<S> for DeviceBuffer<T, S> {
    type Idle = DeviceBuffer<T, Idle<S::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        let at = self.at_when_idle();
        // SAFETY: as in `back`.
        unsafe { self.recast(at) }
    }
}
