//! Features of nightly that switch off checks of safe code, in the kernels' own crate, in a
//! dependency, and in flags.

mod editions;
mod texts;

use std::fs;
use std::path::Path;

use kernel_build::{BuildError, Module};

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
    depend_on(package, "mir", source);
}

/// Adds a crate to the package. All packages of the tests share compiled crates. So a crate that
/// compiles has a name that no other test uses.
pub(crate) fn depend_on(package: &Path, name: &str, source: &str) {
    let directory = package.join(name);
    fs::create_dir_all(directory.join("src")).unwrap();
    let manifest = format!("[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n");
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    let source = format!("#![no_std]\n#![forbid(unsafe_code)]\n{source}");
    fs::write(directory.join("src/lib.rs"), source).unwrap();
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let dependency = format!("{name} = {{ path = {name:?} }}\n[workspace]");
    fs::write(manifest, text.replace("[workspace]", &dependency)).unwrap();
}

/// rustc checks the types of this safe function only while it makes code.
const INTRINSIC: &str = "pub fn value() -> u32 { core::intrinsics::wrapping_add(1, 2) }";

/// Compiles a package that depends on a crate with this library name, which enables
/// `core_intrinsics`.
fn compile_with_intrinsics(krate: &str, source: &str) -> Option<Result<Module, BuildError>> {
    let package = package("intrinsics", "pub use intrinsic as _;");
    depend_on(
        package.path(),
        "intrinsic",
        &format!("#![feature(core_intrinsics)]\n{source}"),
    );
    let manifest = package.path().join("intrinsic/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{text}[lib]\nname = {krate:?}\n")).unwrap();
    // Cargo gives a renamed dependency its new name, so two libraries `device_std` can be used.
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let renamed = "intrinsic = { package = \"intrinsic\", path";
    fs::write(&manifest, text.replace("intrinsic = { path", renamed)).unwrap();
    compile(package.path())
}

/// A crate chooses its name. With the name of the device library it may enable `core_intrinsics`,
/// and names no intrinsic but two that are right for any type.
#[test]
fn an_intrinsic_of_a_crate_called_like_the_device_library_is_refused() {
    let renamed =
        "use core::{intrinsics as other, mem as _};\npub fn value() -> u32 { other::wrapping_add(1, 2) }";
    // rustc prints a string of several lines as it stands, so the last line looks like a comment.
    let behind_a_string = "fn second(_: &str, value: u32) -> u32 { value }\npub fn value() -> u32 { second(\"\n//\", \
        core::intrinsics::saturating_add(1, 2)) }";
    for source in [INTRINSIC, renamed, behind_a_string] {
        let Some(result) = compile_with_intrinsics("device_std", source) else {
            return;
        };
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BuildError::HiddenUnsafe { diagnostics }
                if diagnostics.contains("the crate `device_std` names") && diagnostics.contains("intrinsics")),
            "{error}"
        );
    }
    for krate in ["libm", "intrinsic"] {
        let Some(result) = compile_with_intrinsics(krate, INTRINSIC) else {
            return;
        };
        let error = result.unwrap_err();
        assert!(matches!(&error, BuildError::UnstableFeature { .. }), "{error}");
    }
}

#[test]
fn a_kernel_crate_with_mir_of_its_own_is_refused() {
    let package = package("mir-by-hand", &format!("mod mir {{ {MIR} }}\n{KERNEL}"));
    let root = package.path().join("src/lib.rs");
    let text = fs::read_to_string(&root).unwrap();
    fs::write(&root, format!("{ENABLED}{text}")).unwrap();
    assert_refused(package.path(), "--> src/lib.rs");
}

/// Compiles the package, and expects that rustc refuses the feature in a file of this path.
#[track_caller]
fn assert_refused(package: &Path, file: &str) {
    let Some(result) = compile(package) else {
        return;
    };
    let error = result.unwrap_err();
    let BuildError::UnstableFeature { diagnostics } = &error else {
        panic!("{error}");
    };
    for part in ["error[E0725]", "`custom_mir`", file] {
        assert!(diagnostics.contains(part), "{part}: {diagnostics}");
    }
}

#[test]
fn a_dependency_with_mir_of_its_own_is_refused() {
    let package = package("mir-of-a-dependency", KERNEL);
    depend(package.path(), &format!("{ENABLED}{MIR}"));
    assert_refused(package.path(), "mir/src/lib.rs");
}

/// rustc takes a first line `#!` for the shell's if a comment with documentation follows. A search
/// for attributes took this one for a string in which the feature stands.
#[test]
fn a_feature_in_a_strange_first_line_is_refused() {
    let package = package("mir-behind-a-line-of-the-shell", KERNEL);
    depend(package.path(), "");
    let root = package.path().join("mir/src/lib.rs");
    let hidden = format!("#!/** */[doc = \"\n{ENABLED}//\"]\n#![no_std]\n#![forbid(unsafe_code)]\n{MIR}");
    fs::write(root, hidden).unwrap();
    assert_refused(package.path(), "mir/src/lib.rs");
}

/// Cargo passes a text of a build script on to rustc, here the path of a root of rustc's library.
#[test]
fn a_build_script_does_not_make_its_crate_part_of_the_library() {
    let package = package("mir-with-a-library-of-rustc", KERNEL);
    depend(package.path(), &format!("{ENABLED}{MIR}"));
    let script = r#"fn main() {
        let rustc = std::env::var("RUSTC").unwrap();
        let output = std::process::Command::new(rustc).args(["--print", "sysroot"]).output().unwrap();
        let root = String::from_utf8(output.stdout).unwrap();
        println!("cargo::rustc-link-lib={}/lib/rustlib/src/rust/library/core/src/lib.rs", root.trim());
    }"#;
    fs::write(package.path().join("mir/build.rs"), script).unwrap();
    assert_refused(package.path(), "mir/src/lib.rs");
}

/// A list for `libm` counts for each crate of this name, and has no feature that changes what rustc
/// checks.
#[test]
fn a_crate_with_the_name_of_a_known_one_is_refused() {
    let package = package("mir-under-another-name", KERNEL);
    depend(package.path(), &format!("{ENABLED}{MIR}"));
    let manifest = package.path().join("mir/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap() + "[lib]\nname = \"libm\"\n";
    fs::write(manifest, text).unwrap();
    assert_refused(package.path(), "mir/src/lib.rs");
}

/// On nightly, a profile adds flags to any crate. They are refused before anything is compiled:
/// some enable features, one makes a crate part of rustc's library, others hide statics.
#[test]
fn a_profile_that_adds_flags_is_refused() {
    for flag in [
        "-Zcrate-attr=feature(core_intrinsics,custom_mir)",
        "-Zallow-features=core_intrinsics,custom_mir",
        "-Zforce-unstable-if-unmarked",
        "-Cpasses=globalopt",
    ] {
        let package = package(
            "flags-by-a-profile",
            "#[kernel] pub fn k(_i: Index1, _output: PerThread<u32>) {}",
        );
        depend(package.path(), "");
        let manifest = package.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let profile = format!(
            "[profile.cuda-rt-kernels]\ninherits = \"release\"\n[profile.cuda-rt-kernels.package.mir]\nrustflags = [{flag:?}]\n"
        );
        let text = format!("cargo-features = [\"profile-rustflags\"]\n{text}{profile}");
        fs::write(manifest, text).unwrap();
        let Some(result) = compile(package.path()) else {
            return;
        };
        match result.unwrap_err() {
            BuildError::ProfileFlags { krate, flags } => {
                assert_eq!(krate, "mir");
                assert!(flags.contains(flag), "{flags}");
            }
            error => panic!("{flag}: {error}"),
        }
    }
}

/// Cargo gives no hash to the names of its files, so two crates may share them.
#[test]
fn a_dependency_of_two_kinds_is_refused() {
    let package = package("a-dependency-of-two-kinds", KERNEL);
    depend(package.path(), "");
    let manifest = package.path().join("mir/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap() + "[lib]\ncrate-type = [\"lib\", \"dylib\"]\n";
    fs::write(manifest, text).unwrap();
    match compile(package.path()) {
        None => {}
        Some(Err(BuildError::LibraryKinds { krate, kinds })) => {
            assert_eq!((krate.as_str(), kinds.as_str()), ("mir", "[\"lib\",\"dylib\"]"));
        }
        Some(other) => panic!("{other:?}"),
    }
}

/// The program behind the lists replaces a program of the user's configuration.
#[test]
fn a_wrapper_of_the_configuration_is_not_run() {
    let package = package("a-wrapper-of-the-user", KERNEL);
    depend(package.path(), &format!("{ENABLED}{MIR}"));
    fs::create_dir(package.path().join(".cargo")).unwrap();
    let configuration = "[build]\nrustc-wrapper = \"no-such-program\"\n";
    fs::write(package.path().join(".cargo/config.toml"), configuration).unwrap();
    assert_refused(package.path(), "mir/src/lib.rs");
}

/// A build script adds paths in which rustc looks for crates. Cargo does not know these crates, and
/// no search would see them.
#[test]
fn a_crate_in_a_path_of_a_build_script_is_not_found() {
    for kind in ["crate=", "all=", "native=", ""] {
        let package = package("a-crate-beside-cargo", "extern crate sly;");
        let script = format!(
            r#"fn main() {{
                let out = std::env::var("OUT_DIR").unwrap();
                std::fs::write(format!("{{out}}/libsly.rlib"), "no library").unwrap();
                println!("cargo::rustc-link-search={kind}{{out}}");
            }}"#
        );
        fs::write(package.path().join("build.rs"), script).unwrap();
        let Some(result) = compile(package.path()) else {
            return;
        };
        let error = result.unwrap_err();
        let BuildError::Compile { diagnostics } = &error else {
            panic!("{error}");
        };
        // If rustc looked there, it would say E0786: the file is no library.
        assert!(diagnostics.contains("error[E0463]"), "{kind}: {diagnostics}");
    }
}
