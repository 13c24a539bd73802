//! [`Captured`] and [`InGraph`]: the tags of streams and devices inside a capture.

use std::marker::PhantomData;

use crate::tag::{DeviceTag, Place, StreamTag};

/// The device inside a capture of a stream of `D`. It is not [`Live`](crate::Live): no value inside
/// can be waited for, shared or adopted.
pub struct InGraph<'g, D>(PhantomData<fn(&'g D) -> &'g D>);
// SAFETY: `'g` is fresh at each capture, and a capture has a device core of its own.
unsafe impl<D: DeviceTag> DeviceTag for InGraph<'_, D> {}

/// A stream inside a capture, which stands for `S`.
///
/// Its device differs from the device of `S`. So no outside value can be used inside, and no value
/// made inside leaves ([H25](crate::hazards#h25)).
pub struct Captured<'g, S>(PhantomData<fn(&'g S) -> &'g S>);
// SAFETY: a capture's core has a device instance of its own, whose tag is `InGraph` by definition.
unsafe impl<'g, S: StreamTag> Place for Captured<'g, S> {
    type Device = InGraph<'g, S::Device>;
}
// SAFETY: the capture's core has one stream for each key. The capture's first stream is entered
// under the key of `S`, if `S` has a key. A tag without a key cannot be forked to.
unsafe impl<S: StreamTag> StreamTag for Captured<'_, S> {}
