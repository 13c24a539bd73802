//! [`Metadata`]: a value of the host that moves with a bundle.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::{fmt, mem};

use super::bundle::{Bundle, OwnedBy};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::tag::{DeviceTag, Idle, Place, StreamTag};

/// A value of the host in a bundle: a name, a shape, anything that is not `Copy`. A field that is
/// `Copy` can be marked `#[bundle(plain)]` instead.
///
/// It dereferences to the value, whichever place the bundle has, and calls nothing of the driver.
/// So does the view of it that [`Handoff::peek`](crate::Handoff::peek) gives while the bundle is
/// pending: no GPU knows the value. The value is behind an [`Arc`]: a clone, a view and a move cost
/// no more than a count, and run no code of `T`.
///
/// A bundle that is freed drops its clone of the value, after its other parts are in order. If this
/// is the last clone, the destructor of `T` runs then, on the thread that drops the bundle. A
/// destructor that panics leaks the parts of the bundle that follow, and does no other harm.
///
/// # Hazards prevented
/// [H06](crate::hazards#h06): the value moves with its bundle. [H08](crate::hazards#h08): a bundle
/// goes to another thread only if `T` is `Send` and `Sync`, because a view may stay behind.
///
/// Counterexample: a view once would have borrowed the value in its bundle. But a view may be used
/// while the bundle moves, because a buffer's memory stays where it is; a value does not.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, Metadata, Place};
///
/// #[derive(Bundle)]
/// struct Tensor<P: Place = Idle> {
///     elements: DeviceBuffer<f32, P>,
///     shape: Metadata<Vec<usize>, P>,
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let tensor = Tensor {
///     elements: compute.alloc_zeroed(6)?,
///     shape: Metadata::new(vec![2, 3]),
/// };
/// let pending = compute.release(tensor)?;
/// assert_eq!(*pending.peek().shape, [2, 3]);
/// let mut tensor = compute.acquire(pending)?;
/// tensor.shape.make_mut().reverse();
/// assert_eq!(tensor.shape[0], 3);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct Metadata<T, P = Idle> {
    value: Arc<T>,
    place: PhantomData<fn(P) -> P>,
}

impl<T, P> Metadata<T, P> {
    /// Metadata for a bundle of any place. The value is no memory of a device, so there is nothing
    /// to wait for.
    pub fn new(value: T) -> Self {
        Self::from(Arc::new(value))
    }

    /// The value, for writing: `None` if there is another clone or view of it.
    ///
    /// ```
    /// use cuda_rt::{Idle, Metadata};
    ///
    /// let mut name: Metadata<String, Idle> = Metadata::new("frame".to_owned());
    /// name.value_mut().expect("this is its only clone").push_str(" 1");
    /// let shared = name.clone().into_arc(); // for a log, for example
    /// assert!(name.value_mut().is_none());
    /// assert_eq!((&**shared, name.len()), ("frame 1", 7));
    /// ```
    pub fn value_mut(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.value)
    }

    /// The value, for writing. If there is another clone or view of it, this one gets a copy of its
    /// own first.
    pub fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        Arc::make_mut(&mut self.value)
    }

    /// The value behind its count, to keep beside the bundle.
    pub fn into_arc(self) -> Arc<T> {
        self.value
    }

    /// The same value, for a bundle of another place.
    fn moved<Q>(self) -> Metadata<T, Q> {
        Metadata::from(self.value)
    }
}

impl<T, P> From<Arc<T>> for Metadata<T, P> {
    fn from(value: Arc<T>) -> Self {
        let place = PhantomData;
        Self { value, place }
    }
}

impl<T, P> Clone for Metadata<T, P> {
    fn clone(&self) -> Self {
        Self::from(Arc::clone(&self.value))
    }
}

impl<T, P> Deref for Metadata<T, P> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug, P> fmt::Debug for Metadata<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metadata").field(&self.value).finish()
    }
}

// SAFETY: no method has anything to order: the value is no memory that a GPU uses, and its type
// does not change with the place. Each conversion moves the `Arc`, which runs no code of `T`. A
// view is a clone of the `Arc`, so it borrows nothing, and gives `&T` alone.
unsafe impl<T, D: DeviceTag> Bundle for Metadata<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = Metadata<T, S>;
    type View<'v, S: StreamTag> = Metadata<T, S>;
    type Ref<'v, S: StreamTag> = Metadata<T, S>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, _: StreamRef) -> Metadata<T, S> {
        self.moved()
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: Metadata<T, S>) -> Self {
        on.moved()
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
        self.clone().moved()
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
        self.clone().moved()
    }

    unsafe fn retire(self, _: &mut Fence) {
        mem::drop(self);
    }
}

// SAFETY: as above: there is nothing to order.
unsafe impl<T, S: StreamTag> OwnedBy<S> for Metadata<T, S> {
    type Idle = Metadata<T, Idle<<S as Place>::Device>>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        self.moved()
    }
}
