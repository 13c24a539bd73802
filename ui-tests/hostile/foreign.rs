// Declarations of foreign kernels, for each hostile crate. They promise something, so they do not
// compile where `unsafe` is forbidden, and stand in a file of their own.

::real::foreign_kernel! {
    /// Declared with names that are constants elsewhere.
    pub unsafe fn saxpy(
        stream: ::rust::primitive::u32 = function.len(),
        grid: ::rust::primitive::f32,
        call: &[::rust::primitive::f32],
        function: &mut [::rust::primitive::f32],
    ) as Saxpy;
    unsafe fn nothing() as Nothing;
}

/// `__foreign_kernel!` by hand.
pub mod foreign_by_hand {
    ::real::__foreign_kernel! { @declarations [] pub unsafe fn none(r#fn: ::rust::primitive::u64) as None; }
}

/// Launches a kernel, with each kind of argument.
pub fn launches<D: ::real::Live>(
    saxpy: &Saxpy,
    on: &::real::Stream<Foreign<D>>,
    data: &mut ::real::DeviceBuffer<::rust::primitive::f32, Foreign<D>>,
) -> ::real::Result<()> {
    let (call, function) = data.split_at_mut(1);
    let at = ::real::interop::ForeignGrid::new([1; 3], [1; 3]);
    Saxpy::launch(saxpy, on, at, 0.5, &*call, function)
}

::real::streams! {
    pub Foreign;
}
