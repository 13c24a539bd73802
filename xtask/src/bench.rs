//! `cargo xtask bench`: builds the package `cuda-rt-bench`, and runs it with the same options.
//! docs/bench.md describes it.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use crate::tidy;

/// Builds and runs. Nothing is measured if the build fails.
pub(crate) fn run(options: &[&str]) -> Result<(), Box<dyn Error>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let target = tidy::root().join(target);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--locked"]);
    build
        .args(["--package", "cuda-rt-bench", "--target-dir"])
        .arg(&target);
    if !build.current_dir(tidy::root()).status()?.success() {
        return Err("the benchmark does not build".into());
    }
    let binary = target
        .join("release")
        .join(format!("cuda-rt-bench{}", std::env::consts::EXE_SUFFIX));
    println!(
        "{}: this executable runs alone, also on a machine without Rust",
        binary.display()
    );
    let status = Command::new(&binary).args(options).status();
    let status = status.map_err(|error| format!("{}: {error}", binary.display()))?;
    if !status.success() {
        return Err(format!("cuda-rt-bench: {status}").into());
    }
    Ok(())
}
