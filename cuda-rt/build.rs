//! Says what the feature `cust` needs if no CUDA toolkit is found: the build script of `cust_raw`
//! only panics then. Without the feature this script does nothing. Cargo stops at the first script
//! that fails, which may be `cust_raw`'s: nothing can make that script wait for this one.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_LIBRARY_PATH");
    let documents = env::var_os("DOCS_RS").is_some();
    if env::var_os("CARGO_FEATURE_CUST").is_none() || documents || cfg!(windows) || finds_libcuda() {
        return ExitCode::SUCCESS;
    }
    println!(
        "cargo::error=cuda-rt's feature `cust` links libcuda, through the crate `cust`, and finds no CUDA toolkit."
    );
    println!(
        "cargo::error=Install one (/usr/local/cuda, /opt/cuda), or set CUDA_LIBRARY_PATH to a directory whose `lib64` holds libcuda.so:"
    );
    println!(
        "cargo::error=a stub will do to build with, such as `.ci/stub-libcuda DIRECTORY` makes. All other features load CUDA at run time."
    );
    ExitCode::FAILURE
}

/// Whether `find_cuda_helper` 0.2, which `cust_raw` uses, finds a CUDA toolkit.
fn finds_libcuda() -> bool {
    let named = env::var_os("CUDA_LIBRARY_PATH").unwrap_or_default();
    let versioned = std::fs::read_dir("/usr/local").into_iter().flatten().flatten();
    let versioned = versioned
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("cuda-"))
        .map(|entry| entry.path());
    env::split_paths(&named)
        .chain(["/opt/cuda", "/usr/local/cuda"].map(PathBuf::from))
        .chain(versioned)
        .any(|root| root.join("lib64").is_dir() || root.join("targets/x86_64-linux/include/cuda.h").is_file())
}
