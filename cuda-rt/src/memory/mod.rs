//! Buffers, views of them, and bundles.

mod buffer;
mod bundles;
mod pinned;
mod pool;
mod range;
mod resource;
mod slice;
mod view;

pub use buffer::DeviceBuffer;
// The trait alone: the derive of the same name is for crates that depend on `device_std`.
pub use device_std::element::Element;
pub use pinned::{PinnedBuffer, PinnedSlice};
pub use pool::PinnedStats;
pub use range::RangeIndex;
pub use resource::{OwnedBy, Resource};
pub use slice::{ChunksExact, ChunksExactMut, DeviceSlice};
pub use view::{DeviceView, DeviceViewMut, PinnedView, PinnedViewMut};

pub(crate) use pool::PinnedPool;

use crate::error::{Error, Result};

/// `len` elements of `T` in bytes, if an allocation can have that many.
pub(crate) fn size_in_bytes<T>(len: usize, during: &'static str) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .filter(|bytes| *bytes <= isize::MAX as usize)
        .ok_or(Error::TooLarge {
            during,
            len,
            element_bytes: size_of::<T>(),
        })
}
