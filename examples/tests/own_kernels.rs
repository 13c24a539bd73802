//! A copy of the template `own-kernels/` works as its README says, with and without the compiler
//! for kernels.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_name().to_str() {
            Some("target" | "Cargo.lock") => {}
            _ if path.is_dir() => copy_tree(&path, &to),
            _ => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

/// A copy of the template after step 2 of its README, with this repository's tested versions of all
/// dependencies.
fn copy() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_tree(&repository().join("examples/own-kernels"), directory.path());
    let manifest = directory.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert_eq!(text.matches("../..").count(), 3, "what the README says");
    fs::write(&manifest, text.replace("../..", repository().to_str().unwrap())).unwrap();
    fs::copy(
        repository().join("Cargo.lock"),
        directory.path().join("Cargo.lock"),
    )
    .unwrap();
    directory
}

fn cargo(directory: &Path, toolchain: bool) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|n| n.starts_with("CARGO_") && n != "CARGO_HOME")
        {
            cargo.env_remove(name);
        }
    }
    // All runs share this directory, so the dependencies are compiled once.
    cargo.env(
        "CARGO_TARGET_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-kernels"),
    );
    if !toolchain {
        // Uses the compiler of this test. Without rustup it finds no other.
        let bin = Path::new(env!("CARGO")).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let others = std::env::split_paths(&path).filter(|place| !place.join("rustup").exists());
        let path = std::env::join_paths([bin.to_owned()].into_iter().chain(others)).unwrap();
        cargo.env("PATH", path).env("RUSTC", bin.join("rustc"));
    }
    cargo.current_dir(directory);
    cargo
}

fn run(directory: &Path, toolchain: bool) -> (Output, String) {
    let output = cargo(directory, toolchain)
        .args(["run", "--offline"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, words)
}

fn assert_right(output: &Output, words: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{words}");
    assert!(text.contains("1048576 of 1048576 sums right"), "{text}");
}

fn has_toolchain() -> bool {
    let sysroot = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .output();
    let Some(sysroot) = sysroot.ok().filter(|output| output.status.success()) else {
        return false;
    };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    sysroot.join("lib/rustlib/src/rust/library/core").is_dir()
}

#[test]
fn the_template_runs_where_it_is_copied_to() {
    let directory = copy();
    let committed = directory.path().join("kernels/kernels.ptx");

    // Without rustup the build takes the committed PTX, and says so.
    let (output, words) = run(directory.path(), false);
    assert_right(&output, &words);
    assert!(words.contains("the kernels come from kernels.ptx"), "{words}");

    // The committed PTX does not stand in for changed kernels.
    let source = directory.path().join("kernels/src/lib.rs");
    let before = fs::read_to_string(&source).unwrap();
    fs::write(&source, before.replace("a.mul_add", "(a + 0.0).mul_add")).unwrap();
    let (output, words) = run(directory.path(), false);
    assert!(!output.status.success());
    for needed in [
        "kernels.ptx was not built from the present kernels",
        "https://rustup.rs",
        "rust-src",
    ] {
        assert!(words.contains(needed), "no {needed:?} in\n{words}");
    }
    fs::write(&source, before).unwrap();

    if !has_toolchain() {
        eprintln!("SKIPPED: building the template's kernels needs nightly with rust-src");
        return;
    }
    let shipped = fs::read_to_string(&committed).unwrap();
    fs::remove_file(&committed).unwrap();
    let output = cargo(directory.path(), true)
        .args(["run", "--offline"])
        .env("CUDA_RT_UPDATE_PTX", "1")
        .output()
        .unwrap();
    assert_right(&output, &String::from_utf8_lossy(&output.stderr));
    let built = fs::read_to_string(&committed).unwrap();
    let compiler = |text: &str| text.lines().nth(1).map(str::to_owned);
    if compiler(&shipped) != compiler(&built) {
        eprintln!("SKIPPED: whether the template's PTX is fresh: another compiler built it");
        return;
    }
    assert!(
        shipped == built,
        "stale: run `CUDA_RT_UPDATE_PTX=1 cargo build` in examples/own-kernels"
    );
}
