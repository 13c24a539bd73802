use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=KERNEL_LINES");
    kernel_build::Kernels::new(".")
        // Used without a nightly compiler. `CUDA_RT_UPDATE_PTX=1 cargo build` writes the file.
        .committed("kernels.ptx")
        // Source lines for Nsight Compute, on request. The text then holds paths of this machine.
        .debug_info(std::env::var_os("KERNEL_LINES").is_some())
        .build_script()
}
