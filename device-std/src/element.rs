use bytemuck::Pod;

/// A type that device memory can hold: any bits are a value, there is no padding, and the layout is the same on
/// host and device.
///
/// Implemented for the integers and floats, arrays of elements, and by `#[derive(Element)]` for `#[repr(C)]` structs of
/// elements.
///
/// # Safety
/// The layout is that of `repr(C)`, and `LAYOUT` differs for types whose sizes, alignments, field names, field
/// offsets or field layouts differ.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not an element: device memory can hold any bits, and must have one layout on host and device",
    note = "H31: use integers, floats and arrays of them, or derive it for a struct: \
            `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, cuda_rt::Element)] #[repr(C)]`"
)]
pub unsafe trait Element: Pod {
    /// A hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
}

/// A type that can be passed to a kernel by value.
///
/// # Safety
/// As [`Element`], but that a value need not be any bits (`bool`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel",
    label = "not a kernel parameter",
    note = "H31: pass elements and `bool` by value, read through `&[T]`, and write through `PerThread<T>`"
)]
pub unsafe trait Scalar: Copy + 'static {
    /// A hash of the layout.
    #[doc(hidden)]
    const LAYOUT: u64;
}

/// The exact number of threads that a launch covers, (x, y, z). Threads outside it do not enter the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Extent {
    /// Threads along x.
    pub x: u64,
    /// Threads along y.
    pub y: u64,
    /// Threads along z.
    pub z: u64,
}
