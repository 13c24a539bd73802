/// Embeds a crate's PTX. The call stands in the crate's root.
///
/// The argument is a path, as for [`include_str!`]: `kernel_module!("../ptx/my_kernels.ptx")`. For
/// PTX that `kernel-build` wrote in a build script, it is `kernel_module!(concat!(env!("OUT_DIR"),
/// "/kernels.ptx"))`.
///
/// The file is trusted, as a linker trusts an object file: it must be the output of `kernel-build`
/// or `cargo xtask ptx` for this crate.
///
/// On the host the macro defines the static that the crate's `#[kernel]` items refer to. On the
/// device it expands to nothing.
#[macro_export]
macro_rules! kernel_module {
    ($path:expr) => {
        #[cfg(not(target_arch = "nvptx64"))]
        ::cuda_rt::__module!($path);
    };
}
