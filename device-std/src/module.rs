/// Embeds a crate's PTX, at its root: `kernel_module!("../ptx/my_kernels.ptx")`, the path as for
/// [`include_str!`], or `kernel_module!(concat!(env!("OUT_DIR"), "/kernels.ptx"))` for what
/// `kernel-build` made in a build script.
///
/// The file is trusted to be what `kernel-build` or `cargo xtask ptx` made of this crate, as an
/// object file is by a linker.
///
/// On the host this makes the static that the crate's `#[kernel]` items refer to; on the device it
/// makes nothing.
#[macro_export]
macro_rules! kernel_module {
    ($path:expr) => {
        #[cfg(not(target_arch = "nvptx64"))]
        ::cuda_rt::__module!($path);
    };
}
