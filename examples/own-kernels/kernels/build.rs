use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=KERNEL_LINES");
    kernel_build::Kernels::new(".")
        // The runtime loads the newest that the GPU runs. One is enough, unless the compiler makes
        // use of the newer.
        .architecture("sm_80")
        .architecture("sm_90")
        // For those who have no nightly compiler. `CUDA_RT_UPDATE_PTX=1 cargo build` writes it.
        .committed("kernels.ptx")
        // Source lines for Nsight Compute, on request: the text then names paths of this machine.
        .debug_info(std::env::var_os("KERNEL_LINES").is_some())
        .build_script()
}
