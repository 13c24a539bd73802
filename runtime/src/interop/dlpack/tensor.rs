//! [`DlpackTensor`]: a buffer with the shape of a tensor.

use std::fmt;

use crate::memory::{Bundle, DeviceBuffer, DeviceView, DeviceViewMut, Metadata, OwnedBy};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{DeviceTag, Idle, Place, StreamTag};

/// The elements of an imported tensor, in row-major order, and its shape; `P` says which stream
/// they belong to, or [`Idle`].
///
/// It is a bundle: it moves between streams behind one event, as a buffer does. Once `elements` are
/// dropped, and their last use is over, the tensor's producer gets its memory back.
///
/// ```
/// # cuda_rt::streams! { pub Compute; pub Download; }
/// use cuda_rt::Metadata;
/// use cuda_rt::interop::dlpack::DlpackTensor;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
/// // `from_dlpack` returns such a value; this one is of our own memory.
/// let tensor: DlpackTensor<f32, Compute> = DlpackTensor {
///     elements: compute.alloc_zeroed(6)?,
///     shape: Metadata::new(vec![2, 3]),
/// };
/// let tensor = download.acquire(compute.release(tensor)?)?;
/// assert_eq!((tensor.elements.len(), &tensor.shape[..]), (6, &[2, 3][..]));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub struct DlpackTensor<T, P: Place = Idle> {
    /// The elements.
    pub elements: DeviceBuffer<T, P>,
    /// The extents, in elements; empty for a single element.
    pub shape: Metadata<Vec<usize>, P>,
}

impl<T, P: Place> fmt::Debug for DlpackTensor<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DlpackTensor")
            .field("elements", &self.elements)
            .field("shape", &*self.shape)
            .finish()
    }
}

// SAFETY: structural: both parts are named once in each method.
unsafe impl<T, D: DeviceTag> Bundle for DlpackTensor<T, Idle<D>> {
    type Device = D;
    type On<S: StreamTag> = DlpackTensor<T, S>;
    type View<'v, S: StreamTag> = (DeviceViewMut<'v, T, S>, Metadata<Vec<usize>, S>);
    type Ref<'v, S: StreamTag> = (DeviceView<'v, T, S>, Metadata<Vec<usize>, S>);

    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> DlpackTensor<T, S> {
        // If the shape unwinds, the elements leak: a drop would treat them as idle.
        let elements = Leaked::new(self.elements);
        DlpackTensor {
            // SAFETY: this function's contract covers every part.
            shape: unsafe { self.shape.attach(at) },
            // SAFETY: as above.
            elements: unsafe { elements.take_back().attach(at) },
        }
    }

    unsafe fn idle_from<S: StreamTag>(on: DlpackTensor<T, S>) -> Self {
        // SAFETY: this function's contract covers every part.
        let elements = Leaked::new(unsafe { DeviceBuffer::idle_from(on.elements) });
        // SAFETY: as above.
        let shape = unsafe { Metadata::idle_from(on.shape) };
        let elements = elements.take_back();
        Self { elements, shape }
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
        // SAFETY: this function's contract covers every part.
        let elements = unsafe { self.elements.view() };
        // SAFETY: as above.
        (elements, unsafe { self.shape.view() })
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
        // SAFETY: this function's contract covers every part.
        let elements = unsafe { self.elements.by_ref() };
        // SAFETY: as above.
        (elements, unsafe { self.shape.by_ref() })
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // SAFETY: this function's contract covers every part.
        unsafe { self.elements.retire(fence) };
        // SAFETY: as above.
        unsafe { self.shape.retire(fence) }
    }
}

// SAFETY: structural: both parts are owned by `S`.
unsafe impl<T, S: StreamTag> OwnedBy<S> for DlpackTensor<T, S> {
    type Idle = DlpackTensor<T, Idle<S::Device>>;

    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: this function's contract covers every part.
        let elements = Leaked::new(unsafe { self.elements.detach() });
        // SAFETY: as above.
        let shape = unsafe { self.shape.detach() };
        let elements = elements.take_back();
        DlpackTensor { elements, shape }
    }
}
