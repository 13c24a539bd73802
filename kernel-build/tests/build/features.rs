//! Features of nightly that switch off checks of safe code, in the kernels' own crate, in a
//! dependency, and in flags.

use std::fs;
use std::path::Path;

use kernel_build::BuildError;

use crate::{compile, package};

/// Safe functions in MIR, which rustc does not check. They write behind the output.
const MIR: &str = r#"
use core::intrinsics::mir::*;
#[custom_mir(dialect = "runtime", phase = "optimized")]
pub fn at(from: &mut u32, by: isize) -> *mut u32 {
    mir! { let raw: *mut u32; { raw = &raw mut *from; RET = Offset(raw, by); Return() } }
}
#[custom_mir(dialect = "runtime", phase = "optimized")]
pub fn put(to: *mut u32, value: u32) { mir! { { *to = value; Return() } } }
"#;

const ENABLED: &str = "#![feature(core_intrinsics, custom_mir)]\n#![allow(internal_features)]\n";

const KERNEL: &str = "#[kernel]
pub fn k(i: Index1, mut output: PerThread<u32>, by: u32) {
    if let Some(out) = output.get_mut(i) { mir::put(mir::at(out, by as isize), 7); }
}
";

/// Adds a crate `mir` to the package.
fn depend(package: &Path, source: &str) {
    let directory = package.join("mir");
    fs::create_dir_all(directory.join("src")).unwrap();
    let manifest = "[package]\nname = \"mir\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    let source = format!("#![no_std]\n#![forbid(unsafe_code)]\n{source}");
    fs::write(directory.join("src/lib.rs"), source).unwrap();
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("[workspace]", "mir = { path = \"mir\" }\n[workspace]");
    fs::write(manifest, text).unwrap();
}

#[test]
fn a_kernel_crate_with_mir_of_its_own_is_refused() {
    let package = package("mir-by-hand", &format!("mod mir {{ {MIR} }}\n{KERNEL}"));
    let root = package.path().join("src/lib.rs");
    let text = fs::read_to_string(&root).unwrap();
    fs::write(&root, format!("{ENABLED}{text}")).unwrap();
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::Compile { diagnostics }
            if diagnostics.contains("error[E0725]") && diagnostics.contains("`custom_mir`")),
        "{error}"
    );
}

#[test]
fn a_dependency_with_mir_of_its_own_is_refused() {
    let package = package("mir-of-a-dependency", KERNEL);
    depend(package.path(), &format!("{ENABLED}{MIR}"));
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    let BuildError::UnstableFeature {
        krate,
        file,
        line,
        feature,
    } = &error
    else {
        panic!("{error}");
    };
    assert!(file.ends_with("mir/src/lib.rs"), "{}", file.display());
    assert_eq!(
        (krate.as_str(), *line, feature.as_str()),
        ("mir", 3, "core_intrinsics")
    );
}

/// On nightly, a profile adds flags to any crate. Flags for attributes enable features.
#[test]
fn a_profile_that_adds_flags_is_refused() {
    let package = package("mir-by-a-profile", KERNEL);
    depend(package.path(), &format!("#![allow(internal_features)]\n{MIR}"));
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let flags = "[profile.cuda-rt-kernels]\ninherits = \"release\"\n[profile.cuda-rt-kernels.package.mir]\n\
                 rustflags = [\"-Zcrate-attr=feature(core_intrinsics,custom_mir)\"]\n";
    let text = format!("cargo-features = [\"profile-rustflags\"]\n{text}{flags}");
    fs::write(manifest, text).unwrap();
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::ProfileFlags { krate, .. } if krate == "mir"),
        "{error}"
    );
}
