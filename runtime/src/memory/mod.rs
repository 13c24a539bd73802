//! Buffers, views of them, and bundles.

mod buffer;
mod bundle;
mod bundles;
mod constant;
mod derived;
mod foreign;
mod parts;
mod pinned;
mod pinned_pool;
mod pinned_slice;
mod range;
mod shared;
mod slice;
mod slot;
mod view;

pub use buffer::DeviceBuffer;
#[doc(hidden)]
pub use derived::{
    Attach, Back, Borrow, BorrowMut, Detach, Exact, PartByPart, PartByPartOf, Retire, attach, by_ref, detach,
    has_parts, idle_from, note_host_access, retire, same_type, view,
};
// The trait alone: the derive of the same name is for crates that depend on `device_std`.
#[doc(hidden)]
pub use bundle::ToHost;
pub use bundle::{Bundle, OwnedBy};
pub use constant::Constant;
pub use device_std::element::Element;
pub use pinned::PinnedBuffer;
pub use pinned_pool::PinnedStats;
pub use pinned_slice::PinnedSlice;
pub use range::RangeIndex;
pub use shared::{Lease, Shared};
pub use slice::{ChunksExact, ChunksExactMut, DeviceSlice};
pub use slot::Slot;
pub use view::{DeviceView, DeviceViewMut, PinnedView, PinnedViewMut};

pub(crate) use foreign::Foreign;
pub(crate) use pinned_pool::PinnedPool;

/// What every device allocation is aligned to, in bytes; pinned memory is aligned to a page.
const ALIGNMENT: usize = 256;

/// `len` elements of `T` in bytes, if an allocation can have that many. An element that needs more
/// alignment than memory has does not build; as every buffer is made with this, none can hold one.
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, device_std::Element)]
/// #[repr(C, align(512))]
/// struct Wide([u8; 512]);
/// let gpu = cuda_rt::Device::open_or_simulate().unwrap();
/// let idle = gpu.pinned::<Wide>(1);
/// ```
///
/// An element with padding does not build either: its layout is computed here, for each type.
/// Counterexample: the layout of a struct with parameters was computed for kernels only. Another
/// crate's `Pod`, true of the packed struct that a derive had seen, let the library read padding.
///
/// ```compile_fail,E0080
/// # use bytemuck::{Pod, Zeroable};
/// #[derive(Clone, Copy, device_std::Element)]
/// #[repr(C)]
/// struct Padded<T: Copy> {
///     tag: u8,
///     number: T,
/// }
/// unsafe impl<T: Zeroable + Copy> Zeroable for Padded<T> {}
/// // Not so: there are three bytes between a `u8` and a `u32`.
/// unsafe impl<T: Pod> Pod for Padded<T> {}
/// let gpu = cuda_rt::Device::open_or_simulate().unwrap();
/// let idle = gpu.pinned::<Padded<u32>>(1);
/// ```
pub(crate) fn size_in_bytes<T: Element>(len: usize) -> Option<usize> {
    const {
        // Evaluated whether or not a kernel takes a `T`.
        let _ = T::LAYOUT;
        assert!(
            align_of::<T>() <= ALIGNMENT,
            "device memory is aligned to 256 bytes: elements cannot need more"
        )
    };
    len.checked_mul(size_of::<T>())
        .filter(|bytes| *bytes <= isize::MAX as usize)
}
