//! Types that are [`DeviceCopy`] by `rustacuda_derive`, or by someone else's crate.

use bytemuck::{Pod, Zeroable};
use rustacuda_core::DeviceCopy;

use crate::element::{Element, Scalar};
use crate::hash::Layout;

/// A value of a type that is [`DeviceCopy`], as an element of device memory and as a parameter of a
/// kernel: for types whose crate knows of `rustacuda_derive` and not of `Element`. Where the type
/// is your own, derive `Element` instead.
///
/// `DeviceCopy` promises that a value may be copied to the device, bit by bit, and no more. That is
/// too little for device memory, which a kernel may fill with any bits, and the host then reads.
/// Counterexample: a struct with a `bool`, of which a kernel writes 2. So the type must be [`Pod`]
/// too.
///
/// What is not checked is the order of its fields: the hash by which host and PTX are compared when
/// a module is loaded holds its size and alignment. With PTX built from another version of the type
/// fields could be mistaken for each other; any bits being values, no more than that.
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

// SAFETY: transparent, so zero is a value where it is one of `T`.
unsafe impl<T: Zeroable> Zeroable for DeviceCopied<T> {}
// SAFETY: transparent, so any bits are a value, and there is no padding, where that is so of `T`.
unsafe impl<T: Pod> Pod for DeviceCopied<T> {}

/// Types of which any bits are a value, without padding: [`Pod`], by another name, so that its
/// absence is explained.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is `DeviceCopy`, which promises too little for device memory",
    label = "not any bits are a value of this, as far as rustc knows",
    note = "H31: a kernel may leave any bits in device memory, and the host reads them as `{Self}`. With a `bool`, a `char`, an enum, \
            an `Option`, a pointer or padding in it that is undefined behaviour",
    note = "where any bits are a value: `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)] #[repr(C)]`. Where not: keep \
            the bits as integers, or pass it by value with `ForeignLaunch::device_copy`, which only the host writes"
)]
pub trait AnyBits: Pod {}

#[diagnostic::do_not_recommend]
impl<T: Pod> AnyBits for T {}

// SAFETY: any bits are a value and there is no padding, as `T` is `Pod`; that is `repr(C)`. The
// hash holds size and alignment: see above for what it does not tell.
unsafe impl<T: DeviceCopy + AnyBits> Element for DeviceCopied<T> {
    const LAYOUT: u64 = Layout::of::<T>("DeviceCopy").finish();
}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + AnyBits> Scalar for DeviceCopied<T> {
    const LAYOUT: u64 = <Self as Element>::LAYOUT;
}
