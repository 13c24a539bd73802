//! What a build script prints.

use std::env;
use std::path::Path;
use std::process::Command;

use kernel_build::{BuildError, Kernels};

use crate::{compile, package};

/// The package whose build script a child of the test plays.
const PACKAGE: &str = "CUDA_RT_TEST_SCRIPT_OF";

const UNKNOWN_NAME: &str = "#[kernel]
    fn doubled(i: Index1, input: &[f32]) -> f32 { input[i.get()] * two }";

/// rustc finds this error later than an unknown name.
const OTHER_TYPE: &str = "#[kernel]
    fn doubled(i: Index1, input: &[f32]) -> f32 { input[i.get()] * 2u8 }";

/// The errors of rustc alone: no progress of cargo, no warning of the device library, and none
/// about the arguments that the build chose.
#[test]
fn an_error_of_the_compiler_is_shown_without_other_text() {
    for (source, code) in [(UNKNOWN_NAME, "error[E0425]"), (OTHER_TYPE, "error[E0277]")] {
        let package = package("one-error", source);
        let Some(result) = compile(package.path()) else {
            return;
        };
        let error = result.unwrap_err();
        let BuildError::Compile { diagnostics } = &error else {
            panic!("{error}")
        };
        assert!(diagnostics.starts_with(code), "{diagnostics}");
        for other in ["Compiling ", "Finished ", "warning"] {
            assert!(!diagnostics.contains(other), "{other}: {diagnostics}");
        }
    }
}

/// Cargo shows all that a failed script has printed.
#[test]
fn a_script_that_fails_prints_its_error_once_and_nothing_else() {
    if let Some(package) = env::var_os(PACKAGE) {
        let code = Kernels::new(package).build_script();
        assert_ne!(code, std::process::ExitCode::SUCCESS);
        return;
    }
    let package = package("unknown-name", UNKNOWN_NAME);
    if compile(package.path()).is_none() {
        return;
    }
    // Of its own: two builds in one directory at once would overwrite each other's files.
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("script-that-fails");
    std::fs::create_dir_all(&out).unwrap();
    let this = "script::a_script_that_fails_prints_its_error_once_and_nothing_else";
    let child = Command::new(env::current_exe().unwrap())
        .args([this, "--exact", "--nocapture"])
        .env(PACKAGE, package.path())
        .env("OUT_DIR", &out)
        .env_remove("TARGET")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&child.stdout), text(&child.stderr));
    assert!(child.status.success(), "{stdout}{stderr}");
    assert_eq!(stderr.matches("error[E0425]").count(), 1, "{stderr}");
    assert!(
        !stdout.contains("cargo::") && !stdout.contains("E0425"),
        "{stdout}"
    );
}
