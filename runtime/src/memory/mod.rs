//! Memory of devices and page-locked host memory: buffers, views of buffers, and bundles of
//! buffers.

mod buffer;
mod bundle;
mod bundles;
mod cast;
mod constant;
mod derived;
mod device_pool;
mod foreign;
mod free_blocks;
mod host_arguments;
mod host_methods;
mod host_operators;
mod kept;
mod layout;
mod loan;
mod managed;
mod managed_pool;
mod many_parts;
mod mapped_host;
mod metadata;
mod parts;
mod peek;
mod peer;
mod pinned;
mod pinned_pool;
mod pinned_slice;
mod range;
mod shared;
mod slice;
mod slot;
mod view;
mod write_combined;

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
pub use host_arguments::HostArguments;
pub use kept::Kept;
pub use layout::{Layout2, Layout3};
pub use loan::Loan;
pub use managed::ManagedBuffer;
pub use metadata::Metadata;
pub use peer::PeerBuffer;
pub use pinned::PinnedBuffer;
pub use pinned_pool::PinnedStats;
pub use pinned_slice::PinnedSlice;
pub use range::RangeIndex;
pub use shared::{HostLease, Lease, Shared};
pub use slice::{ChunksExact, ChunksExactMut, DeviceSlice};
pub use slot::Slot;
pub use view::{DeviceView, DeviceViewMut, PinnedView, PinnedViewMut};
pub use write_combined::{WriteCombinedBuffer, WriteCombinedView};

pub(crate) use device_pool::{BlockAddress, DeviceBlock, DevicePool};
pub(crate) use foreign::Foreign;
pub(crate) use managed_pool::ManagedPool;
pub(crate) use pinned_pool::PinnedPool;
pub(crate) use write_combined::WriteCombinedPool;

/// The alignment of every device allocation, in bytes. Pinned memory is aligned to a page.
const ALIGNMENT: usize = 256;

/// The size of `len` elements of `T` in bytes, if an allocation can be that large. An element type
/// that needs more than [`ALIGNMENT`] does not build. Every buffer is made with this function, so
/// no buffer holds a misaligned element.
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
/// Counterexample: the layout of a generic struct was once computed for kernels only. A `Pod` impl
/// written by hand then let the library read padding.
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
/// // Wrong: there are three bytes of padding between a `u8` and a `u32`.
/// unsafe impl<T: Pod> Pod for Padded<T> {}
/// let gpu = cuda_rt::Device::open_or_simulate().unwrap();
/// let idle = gpu.pinned::<Padded<u32>>(1);
/// ```
pub(crate) fn size_in_bytes<T: Element>(len: usize) -> Option<usize> {
    const {
        // The layout is computed here even if no kernel takes a `T`.
        let _ = T::LAYOUT;
        assert!(
            align_of::<T>() <= ALIGNMENT,
            "device memory is aligned to 256 bytes: elements cannot need more"
        )
    };
    len.checked_mul(size_of::<T>())
        .filter(|bytes| *bytes <= isize::MAX as usize)
}
