//! `__module!`, which embeds the PTX of a crate of kernels.

/// The host code of `kernel_module!`. The macro stands in this crate, so that its promise is about
/// this crate's [`ModuleImage`].
#[doc(hidden)]
#[macro_export]
macro_rules! __module {
    ($path:expr) => {
        // All kernels of the crate name it, and no other crate can: private kernels stay private.
        #[doc(hidden)]
        pub(crate) static __CUDA_RT_MODULE: $crate::kernel::ModuleImage = {
            // These constants stand outside the `unsafe` block, which holds no macro and no code of
            // the user's crate.
            const PTX: &$crate::__private::core::primitive::str =
                $crate::__private::core::include_str!($path);
            const PACKAGE: &$crate::__private::core::primitive::str =
                $crate::__private::core::env!("CARGO_PKG_NAME");
            // SAFETY: the file is the output of `kernel-build`, and is trusted like a linked object
            // file. This is the one statement that a caller of these macros can make false.
            unsafe { $crate::kernel::ModuleImage::new(PACKAGE, PTX) }
        };
    };
}
