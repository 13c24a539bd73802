//! The text that is searched is the text that is compiled: crates that would pass for rustc's own,
//! and files that change. The crates have `forbid(unsafe_code)`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kernel_build::{BuildError, Module};

use super::depend_on;
use crate::{compile, package};

const KERNEL: &str = "#[kernel]
pub fn k(i: Index1, mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) { *out = mir::value(); }
}
";

/// A block that is unsafe without the word.
const FOREIGN: &str =
    "extern \"C\" { fn other(x: u32) -> u32; }\npub fn value() -> u32 { other as usize as u32 }\n";

/// The root of a crate in the sources of rustc's library, without its version.
fn in_library(krate: &str) -> PathBuf {
    let rustc = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .output();
    let sysroot = String::from_utf8(rustc.unwrap().stdout).unwrap();
    let vendor = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/vendor");
    let found = fs::read_dir(&vendor).unwrap().map(|entry| entry.unwrap().path());
    let mut found = found.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(krate));
    found.next().unwrap().join("src/lib.rs")
}

#[track_caller]
fn assert_hidden_unsafe(package: &Path, krate: &str) {
    match compile(package) {
        None => {}
        Some(Err(BuildError::HiddenUnsafe { diagnostics })) => {
            let named = format!("the crate `{krate}` has, with its macros expanded: extern");
            assert!(diagnostics.contains(&named), "{diagnostics}");
        }
        Some(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_changed(result: Option<Result<Module, BuildError>>, why: &str) {
    match result {
        None => {}
        Some(Err(BuildError::ChangedFile { diagnostics })) => {
            assert!(diagnostics.contains(why), "{diagnostics}");
        }
        Some(other) => panic!("{other:?}"),
    }
}

/// Whether nightly has the sources of its library. The tests say otherwise that they are skipped.
fn has_library() -> bool {
    let package = package("a-package-without-kernels-of-its-own", "");
    compile(package.path()).is_some()
}

/// The root is rustc's own file; its module lies beside the link.
#[cfg(unix)]
#[test]
fn a_root_that_is_a_link_into_rustcs_library_is_searched() {
    if !has_library() {
        return;
    }
    let package = package(
        "a-link-to-a-root-of-the-library",
        &KERNEL.replace("mir", "linked"),
    );
    depend_on(package.path(), "linked", "");
    let source = package.path().join("linked/src");
    fs::remove_file(source.join("lib.rs")).unwrap();
    std::os::unix::fs::symlink(in_library("adler2"), source.join("lib.rs")).unwrap();
    fs::write(source.join("algo.rs"), FOREIGN).unwrap();
    let manifest = package.path().join("linked/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("2024", "2021");
    fs::write(manifest, text).unwrap();
    assert_hidden_unsafe(package.path(), "linked");
}

/// The root is rustc's own file; a macro that it calls is not.
#[test]
fn a_root_in_rustcs_library_is_searched() {
    if !has_library() {
        return;
    }
    let package = package("a-root-in-the-library", &KERNEL.replace("mir", "inside"));
    depend_on(package.path(), "inside", "");
    let directory = package.path().join("inside");
    let manifest = format!(
        "[package]\nname = \"inside\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[lib]\npath = {:?}\n\
         [dependencies]\ncfg-if = {{ path = \"cfg-if\" }}\n",
        in_library("dlmalloc")
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    let macros = directory.join("cfg-if");
    fs::create_dir_all(macros.join("src")).unwrap();
    let manifest = "[package]\nname = \"cfg-if\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    fs::write(macros.join("Cargo.toml"), manifest).unwrap();
    // The words `extern fn` pass the search in the text of this crate.
    let text = r#"#![no_std]
        #![forbid(unsafe_code)]
        #[macro_export]
        macro_rules! cfg_if { ($($any:tt)*) => { $crate::module! { extern fn } }; }
        #[macro_export]
        macro_rules! module { ($word:tt fn) => { pub mod sys {
            pub struct System;
            impl System { pub const fn new() -> Self { System } }
            $word "C" { pub fn other(x: u32) -> u32; }
        } }; }
    "#;
    fs::write(macros.join("src/lib.rs"), text).unwrap();
    assert_hidden_unsafe(package.path(), "inside");
}

/// A file that differs by process chooses the text.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_differs_by_process_is_refused() {
    let source = "pub fn value() -> u32 { include!(\"/proc/sys/kernel/ns_last_pid\") }";
    let package = package("a-file-of-the-kernel", &KERNEL.replace("mir", "differs"));
    depend_on(package.path(), "differs", source);
    assert_changed(
        compile(package.path()),
        "the crate `differs` reads the file /proc/sys/kernel/ns_last_pid, which is no file on a disk",
    );
}

/// Nothing but the time of the inode's change differs: another program may have written the file
/// and set the time of the modification.
#[cfg(unix)]
#[test]
fn a_file_that_changes_during_the_compilation_is_refused() {
    let package = package("a-file-that-changes", &KERNEL.replace("mir", "changes"));
    let source = "pub fn value() -> u32 { include!(\"number.rs\") }";
    depend_on(package.path(), "changes", source);
    let number = package.path().join("changes/src/number.rs");
    fs::write(&number, "7").unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let writer = thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
            let permissions = fs::metadata(&number).unwrap().permissions();
            fs::set_permissions(&number, permissions).unwrap();
        }
    });
    let result = compile(package.path());
    drop(stop);
    writer.join().unwrap();
    assert_changed(result, "changes/src/number.rs, which may have changed");
    // A refused crate is compiled again.
    if let Some(result) = compile(package.path()) {
        result.unwrap();
    }
}

/// What a build script writes, and what a link leads to.
#[cfg(unix)]
#[test]
fn files_of_a_build_script_and_behind_links_are_read() {
    let package = package("files-that-stay", &KERNEL.replace("mir", "stays"));
    let source = "pub fn value() -> u32 { include!(concat!(env!(\"OUT_DIR\"), \"/a number.rs\")) + include!(\"link.rs\") }";
    depend_on(package.path(), "stays", source);
    let directory = package.path().join("stays");
    let script = r#"fn main() {
        let out = std::env::var("OUT_DIR").unwrap();
        std::fs::write(format!("{out}/a number.rs"), "7").unwrap();
    }"#;
    fs::write(directory.join("build.rs"), script).unwrap();
    fs::write(directory.join("number.rs"), "7").unwrap();
    std::os::unix::fs::symlink("../number.rs", directory.join("src/link.rs")).unwrap();
    if let Some(result) = compile(package.path()) {
        result.unwrap();
    }
}
