//! `protocol.py`, by a spawned Python, on simulated devices of several seeds.
//!
//! Without Python, or without NumPy, tests are left out, aloud. Where the environment variable `CI`
//! is set, that is a failure: `.ci/run` installs both. `CUDA_RT_PYTHON` names the interpreter.
#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Orders of the simulated device.
const SEEDS: u64 = 3;

fn interpreter() -> String {
    env::var("CUDA_RT_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// The module that cargo built for this test, beside the test's own binary.
fn module() -> PathBuf {
    let test = env::current_exe().expect("the path of this test is known");
    let folder = test.parent().expect("it lies in a folder");
    let name = if cfg!(target_os = "macos") {
        "libpython_exchange.dylib"
    } else {
        "libpython_exchange.so"
    };
    folder.join(name)
}

/// Says what is left out. A failure where CI is set.
fn left_out(why: &str) {
    let is_ci = env::var("CI").is_ok_and(|ci| !ci.is_empty());
    assert!(!is_ci, "CI is set, and {why}");
    eprintln!("SKIPPED IN PYTHON: {why}");
}

fn works(arguments: &[&str]) -> bool {
    let output = Command::new(interpreter()).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn python_and_this_project_exchange_tensors_by_their_protocols() {
    if !works(&["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]) {
        return left_out("there is no Python 3.9 or later: install python3, or set CUDA_RT_PYTHON");
    }
    if !works(&["-c", "import numpy"]) {
        left_out("NumPy is not installed: the tests with it are left out");
    }
    let folder = tempfile::tempdir().expect("there is room");
    // The name by which Python finds a module for every version.
    fs::copy(module(), folder.path().join("python_exchange.abi3.so")).expect("cargo built the module");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol.py");
    for seed in 0..SEEDS {
        let output = Command::new(interpreter())
            .arg(&tests)
            .env("PYTHONPATH", folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CUDA_VISIBLE_DEVICES", "")
            .env("CUDA_RT_SEED", seed.to_string())
            .output()
            .expect("Python runs");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {}\n{words}", output.status);
        // Without this, a file without tests would pass. Some versions count no skipped tests.
        let ran = words.split("Ran ").nth(1).and_then(|rest| rest.split(' ').next());
        let ran: usize = ran.and_then(|ran| ran.parse().ok()).unwrap_or(0);
        assert!(ran >= 25, "{words}");
    }
}
