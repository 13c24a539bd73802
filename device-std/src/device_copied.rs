//! Types that implement [`DeviceCopy`] by `rustacuda_derive`, or in another crate.

use bytemuck::{Pod, Zeroable};
use rustacuda_core::DeviceCopy;

use crate::element::{Element, Scalar};
use crate::hash::Layout;

/// Wraps a [`DeviceCopy`] value, so that it can be an element of device memory and a parameter of a
/// kernel. It is for types whose crate uses `rustacuda_derive` and not `Element`. For a type of
/// your own, derive `Element` instead.
///
/// `DeviceCopy` promises only that a value may be copied to the device, bit by bit. Device memory
/// needs more: a kernel may fill it with any bits, and the host then reads them. Counterexample: a
/// struct with a `bool`, into which a kernel writes 2. Therefore the type must be [`Pod`] too.
///
/// The order of the fields is not checked: the hash, which host and PTX compare when a module is
/// loaded, holds only the size and the alignment. With PTX built from another version of the type,
/// a kernel could take one field for another. No worse can happen, because every bit pattern is a
/// value.
///
/// ```
/// use device_std::{DeviceCopied, Element};
/// use device_std::bytemuck::{Pod, Zeroable};
/// use rustacuda_derive::DeviceCopy;
///
/// #[derive(Clone, Copy, DeviceCopy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Pixel { r: f32, g: f32, b: f32 }
///
/// fn is_element<T: Element>() {}
/// is_element::<DeviceCopied<Pixel>>();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct DeviceCopied<T>(pub T);

// SAFETY: the wrapper is transparent, and zero is a value of `T: Zeroable`.
unsafe impl<T: Zeroable> Zeroable for DeviceCopied<T> {}
// SAFETY: the wrapper is transparent, and `T: Pod` has no padding and takes every bit pattern.
unsafe impl<T: Pod> Pod for DeviceCopied<T> {}

/// A type that has no padding, and takes every bit pattern as a value. It is [`Pod`] under another
/// name, so that an error message can explain why `Pod` is needed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is `DeviceCopy`, which promises too little for device memory",
    label = "rustc does not know that every bit pattern is a value of this type",
    note = "H31: a kernel may leave any bits in device memory, and the host reads them as `{Self}`. With a `bool`, a `char`, an enum, \
            an `Option`, a pointer or padding in it that is undefined behaviour",
    note = "if every bit pattern is a value: `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)] #[repr(C)]`. If not: keep \
            the bits as integers, or pass it by value with `ForeignLaunch::device_copy`, which only the host writes"
)]
pub trait AnyBits: Pod {}

#[diagnostic::do_not_recommend]
impl<T: Pod> AnyBits for T {}

// SAFETY: `T: Pod` has no padding, takes every bit pattern, and has the layout of `repr(C)`. The
// hash holds size and alignment; the type's documentation says why that is enough.
unsafe impl<T: DeviceCopy + AnyBits> Element for DeviceCopied<T> {
    const LAYOUT: u64 = Layout::of::<T>("DeviceCopy").finish();
}
// SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
unsafe impl<T: DeviceCopy + AnyBits> Scalar for DeviceCopied<T> {
    const LAYOUT: u64 = <Self as Element>::LAYOUT;
}
