//! A driver library that does nothing (`instructions/libcuda.c`), for tests that need no GPU. A
//! test starts itself as a process that finds this library.

use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "CUDA_RT_TEST_OVER_NULL_LIBCUDA";

/// Compiles the library into the folder `name`, whose path it returns.
fn library(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instructions/libcuda.c");
    let mut compile = Command::new(&compiler);
    compile.args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o"]);
    compile.arg(folder.join("libcuda.so.1")).arg(source);
    let compiled = compile.status();
    let compiled = compiled.unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    assert!(compiled.success());
    folder
}

/// Runs `body`, the body of the test `name`, in a process that finds the library.
pub(crate) fn over_null_libcuda(name: &str, body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(VARIABLE, name)
        .env("LD_LIBRARY_PATH", library(name))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}
