//! [`Constant`]: bundles that are never written again.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::memory::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, Idle, Live, OnDevice, StreamTag};

/// A bundle that every stream may read for ever, and that nothing writes or frees. The weights of a
/// model are an example.
///
/// [`Shared`](crate::Shared) memory returns to a writer, so each lease costs a wait when it begins
/// and an event when it ends. A constant never returns, so reading it costs neither. The price: the
/// memory and its device stay until the process ends, even if every clone is dropped.
///
/// A clone costs one atomic count. Any number of streams adopt clones, at the same time:
/// `stream.adopt(weights.clone())` calls nothing of the driver, and returns a handle that this
/// stream owns. The handle can be part of bundles and graphs like a buffer.
///
/// A constant's type names its device, by `R`. So a stream of [`AnyDevice`](crate::AnyDevice) makes
/// none that leaves its closure: keep a buffer there. On a [`Device`](crate::Device) a bundle with
/// a constant is [kept](crate::Kept) by a stream that is known at run time:
/// [`AnyStream::run_on`](crate::AnyStream::run_on) has the device's type.
///
/// # Hazards prevented
/// [H02](crate::hazards#h02), [H08](crate::hazards#h08) (no method writes it),
/// [H21](crate::hazards#h21) (nothing frees it).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Constant;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let weights = compute.release(compute.alloc_zeroed::<f32>(1024)?)?.synchronize()?;
/// let weights = Constant::new(weights);
/// let mut out = compute.alloc_zeroed::<f32>(1024)?;
/// compute.copy(&compute.adopt(weights.clone())?.view(), &mut out)?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
//
// # Invariants
// CONSTANT-1. No write to the bundle is pending or comes later, and it is never dropped.
// CONSTANT-2. `P` is a place of the bundle's device.
pub struct Constant<R: Bundle, P = Idle> {
    bundle: Arc<ManuallyDrop<R>>,
    /// CONSTANT-2 by ON-DEVICE-1.
    place: OnDevice<R::Device, P>,
}

impl<R: Bundle, P> Clone for Constant<R, P> {
    fn clone(&self) -> Self {
        Self {
            bundle: Arc::clone(&self.bundle),
            place: self.place,
        }
    }
}

impl<R: Bundle, P> fmt::Debug for Constant<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constant").finish_non_exhaustive()
    }
}

impl<R: Bundle> Constant<R, Idle<R::Device>>
where
    R::Device: Live,
{
    /// Makes an idle bundle a constant. Calls nothing of the driver.
    pub fn new(idle: R) -> Self {
        // CONSTANT-1: an idle bundle has no pending use, and only `by_ref` is called from here on.
        Self {
            bundle: Arc::new(ManuallyDrop::new(idle)),
            place: OnDevice::new(),
        }
    }
}

impl<R: Bundle, S: StreamTag> Constant<R, S> {
    /// Views of all parts, which `S` may read.
    pub fn view(&self) -> R::Ref<'_, S> {
        // SAFETY: CONSTANT-1: the bundle is live, and nothing writes it.
        unsafe { self.bundle.by_ref() }
    }
}

impl<R: Bundle, P> Constant<R, P> {
    pub(super) fn bundle(&self) -> &R {
        &self.bundle
    }

    /// The same bundle in another place. CONSTANT-1 does not depend on the place.
    fn recast<Q>(self, place: OnDevice<R::Device, Q>) -> Constant<R, Q> {
        Constant {
            bundle: self.bundle,
            place,
        }
    }
}

// SAFETY: there is one part, which every method converts. `&` gives no way to write it.
unsafe impl<R: Bundle, D: DeviceTag> Bundle for Constant<R, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = Constant<R, S>;
    type View<'v, S: StreamTag> = R::Ref<'v, S>;
    type Ref<'v, S: StreamTag> = R::Ref<'v, S>;

    unsafe fn attach<S: StreamTag>(self, _at: StreamRef) -> Constant<R, S> {
        // SAFETY: by this function's contract `S` is on the device `D`.
        let place = unsafe { self.place.moved() };
        self.recast(place)
    }

    unsafe fn idle_from<S: StreamTag>(on: Constant<R, S>) -> Self {
        // SAFETY: by this function's contract `S` is on the device `D`.
        let place = unsafe { on.place.moved() };
        on.recast(place)
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> R::Ref<'v, S> {
        // SAFETY: CONSTANT-1: the bundle is live, and nothing writes it.
        unsafe { self.bundle.by_ref() }
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> R::Ref<'v, S> {
        // SAFETY: as above.
        unsafe { self.bundle.by_ref() }
    }

    unsafe fn retire(self, _fence: &mut Fence) {}
}

// SAFETY: there is one part, and every stream may read it (CONSTANT-1).
unsafe impl<R: Bundle, S: StreamTag> OwnedBy<S> for Constant<R, S> {
    type Idle = Constant<R, Idle<S::Device>>;

    unsafe fn detach(self) -> Self::Idle {
        let place = self.place.idle();
        self.recast(place)
    }
}
