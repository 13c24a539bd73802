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
///
/// ```standalone_crate
/// use device_std::prelude::*;
///
/// # /*
/// device_std::kernel_module!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
/// # */
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// pub fn double(i: Index1, input: &[u32]) -> u32 {
///     input[i.get()] * 2
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&[1, 2])?;
/// let output = compute.alloc_uninit(2)?;
/// let output = double(&compute, cuda_rt::Grid1::covering(2), &input, output)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [2, 4]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[macro_export]
macro_rules! kernel_module {
    ($path:expr) => {
        #[cfg(not(target_arch = "nvptx64"))]
        ::cuda_rt::__module!($path);
    };
}
