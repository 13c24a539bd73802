//! Lengths and plain fields of bundles that are pending or shared.
//!
//! A view with the tag [`NoStream`] shows them, and no memory: no stream takes such a view, and the
//! host cannot read it. Making it runs no code of a user (docs/soundness.md, obligation 3): lengths
//! are this crate's own, and plain fields are `Copy`.

use std::ops::Deref;

use super::pinned_slice::PinnedSlice;
use super::slice::DeviceSlice;
use super::{Bundle, Constant, DeviceBuffer, Lease, PinnedBuffer, Shared, Slot};
use crate::order::handoff::Handoff;
use crate::tag::{DeviceTag, Idle, NoStream};

impl<R: Bundle> Handoff<R> {
    /// Views of all parts, which no stream and no host may use: they have lengths and plain fields.
    /// Calls nothing of the driver, and waits for nothing.
    ///
    /// # Hazards prevented
    /// [H01](crate::hazards#h01), [H13](crate::hazards#h13): the memory of a pending bundle stays
    /// out of reach.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::{Bundle, DeviceBuffer, Idle, Place};
    ///
    /// #[derive(Bundle)]
    /// struct Matrix<P: Place = Idle> {
    ///     elements: DeviceBuffer<f32, P>,
    ///     #[bundle(plain)]
    ///     shape: [usize; 2],
    /// }
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let elements = compute.alloc_zeroed::<f32>(6)?;
    /// let pending = compute.release(Matrix { elements, shape: [2, 3] })?;
    /// assert_eq!(pending.peek().shape, [2, 3]);
    /// assert_eq!(pending.peek().elements.len(), 6);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn peek(&self) -> R::Ref<'_, NoStream<R::Device>> {
        // SAFETY: no stream has the tag `NoStream`. The borrowed handoff keeps the parts.
        unsafe { self.pending_ref().by_ref() }
    }
}

impl<R: Bundle> Shared<R> {
    /// Views of all parts that show lengths and plain fields only, as [`Handoff::peek`] gives them.
    pub fn peek(&self) -> R::Ref<'_, NoStream<R::Device>> {
        // SAFETY: no stream has the tag `NoStream`. The borrowed holder keeps the parts.
        unsafe { self.bundle().by_ref() }
    }
}

impl<R: Bundle> Slot<R> {
    /// Views of all parts that show lengths and plain fields only, as [`Handoff::peek`] gives them.
    /// `None` if an earlier call lost the bundle.
    pub fn peek(&self) -> Option<R::Ref<'_, NoStream<R::Device>>> {
        Some(self.pending()?.peek())
    }
}

impl<R: Bundle, P> Lease<R, P> {
    /// Views of all parts that show lengths and plain fields only, as [`Handoff::peek`] gives them.
    pub fn peek(&self) -> R::Ref<'_, NoStream<R::Device>> {
        // SAFETY: SHARED-3: the lease holds the bundle. No stream has the tag `NoStream`.
        unsafe { self.bundle().by_ref() }
    }
}

impl<R: Bundle, P> Constant<R, P> {
    /// Views of all parts that show lengths and plain fields only, as [`Handoff::peek`] gives them.
    pub fn peek(&self) -> R::Ref<'_, NoStream<R::Device>> {
        // SAFETY: CONSTANT-1: the bundle is live. No stream has the tag `NoStream`.
        unsafe { self.bundle().by_ref() }
    }
}

macro_rules! lengths {
    ($($holder:ident of $buffer:ident;)*) => { $(
        impl<T, D: DeviceTag> $holder<$buffer<T, Idle<D>>> {
            /// Length in elements.
            pub fn len(&self) -> usize {
                self.peek().len()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    )* };
}

lengths! {
    Handoff of DeviceBuffer;
    Handoff of PinnedBuffer;
    Shared of DeviceBuffer;
    Shared of PinnedBuffer;
}

macro_rules! dereferenced {
    ($([$($generics:tt)*] $holder:ident of $buffer:ident as $slice:ident $(, $place:ident)?;)*) => { $(
        /// As [`Handoff::peek`]: lengths, and no memory. So methods and functions that need a
        /// stream's memory, or the host's, are refused with the hazard and the mend.
        impl<$($generics)*> Deref for $holder<$buffer<T, Idle<D>> $(, $place)?> {
            type Target = $slice<T, NoStream<D>>;

            fn deref(&self) -> &$slice<T, NoStream<D>> {
                self.peek().into_slice()
            }
        }
    )* };
}

dereferenced! {
    [T, D: DeviceTag] Handoff of DeviceBuffer as DeviceSlice;
    [T, D: DeviceTag] Handoff of PinnedBuffer as PinnedSlice;
    [T, D: DeviceTag] Shared of DeviceBuffer as DeviceSlice;
    [T, D: DeviceTag] Shared of PinnedBuffer as PinnedSlice;
    [T, D: DeviceTag, P] Constant of DeviceBuffer as DeviceSlice, P;
    [T, D: DeviceTag, P] Constant of PinnedBuffer as PinnedSlice, P;
    [T, D: DeviceTag, P] Lease of DeviceBuffer as DeviceSlice, P;
    [T, D: DeviceTag, P] Lease of PinnedBuffer as PinnedSlice, P;
}
