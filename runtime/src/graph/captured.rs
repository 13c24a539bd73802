//! The tags of streams and devices inside a capture.

use std::marker::PhantomData;

use crate::tag::{DeviceTag, Place, StreamTag};

/// The device inside a capture of a stream of `D`. Not [`Live`](crate::Live): nothing inside can be
/// waited for, shared or adopted.
pub struct InGraph<'g, D>(PhantomData<fn(&'g D) -> &'g D>);
// SAFETY: `'g` is fresh at each capture, and a capture has a device core of its own.
unsafe impl<D: DeviceTag> DeviceTag for InGraph<'_, D> {}

/// A stream inside a capture, standing for `S`.
///
/// Its device is another one than that of `S`, so that nothing of the outside can be named inside,
/// and nothing made inside leaves (H25).
pub struct Captured<'g, S>(PhantomData<fn(&'g S) -> &'g S>);
// SAFETY: by definition.
unsafe impl<'g, S: StreamTag> Place for Captured<'g, S> {
    type Device = InGraph<'g, S::Device>;
}
// SAFETY: the capture's core has one stream for each key, and the one that it begins on is entered
// under the key of `S`, if that has one; a tag that has none cannot be forked to.
unsafe impl<S: StreamTag> StreamTag for Captured<'_, S> {}
