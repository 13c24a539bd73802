//! `cargo xtask platforms`: checks that cuda-rt compiles for the other platforms with NVIDIA
//! drivers, besides x86-64 Linux.
//!
//! The pinned nightly builds the targets' standard libraries (`-Zbuild-std`), so no target needs to
//! be installed. Nothing is linked or run.

use std::error::Error;
use std::path::Path;
use std::process::Command;

const TARGETS: [&str; 2] = ["x86_64-pc-windows-msvc", "aarch64-unknown-linux-gnu"];

/// Checks each target.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("xtask lies in the workspace")?;
    for target in TARGETS {
        let status = Command::new("rustup")
            .args(["run", "nightly", "cargo", "check", "-Zbuild-std", "--locked"])
            .args([
                "--package",
                "cuda-handoff",
                "--features",
                "cupti,nccl,half",
                "--target",
                target,
            ])
            .current_dir(root)
            .env("CARGO_TERM_PROGRESS_WHEN", "never")
            .status()?;
        if !status.success() {
            return Err(format!("cuda-rt does not compile for {target}").into());
        }
        println!("ok: {target}");
    }
    Ok(())
}
