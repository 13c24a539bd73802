//! What embeds the PTX of a crate of kernels.

/// What `kernel_module!` makes on the host; here, so that it is this crate's [`ModuleImage`] that
/// it vouches for.
#[doc(hidden)]
#[macro_export]
macro_rules! __module {
    ($path:expr) => {
        #[doc(hidden)]
        pub static __CUDA_RT_MODULE: $crate::kernel::ModuleImage = {
            // Outside the block below, which holds nothing of the user's crate, and no macro.
            const PTX: &$crate::__private::core::primitive::str =
                $crate::__private::core::include_str!($path);
            const PACKAGE: &$crate::__private::core::primitive::str =
                $crate::__private::core::env!("CARGO_PKG_NAME");
            // SAFETY: what a build left, as with an object file that is linked; signatures and
            // layouts are compared at load.
            unsafe { $crate::kernel::ModuleImage::new(PACKAGE, PTX) }
        };
    };
}
