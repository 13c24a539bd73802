//! Kernels in a module of the package that launches them.

use std::fs;
use std::path::Path;

use kernel_build::{BuildError, Kernels};

use crate::{SCALE, compile_with, constants, package};

/// A module of a package gives the same entries as a package of its own.
#[test]
fn kernels_may_be_a_module_of_the_package_that_launches_them() {
    const SHIFT: &str = "#[kernel]
        fn shift(i: Index1, from: &[f32], mut data: PerThread<f32>) {
            if let Some(value) = data.get_mut(i) { *value = from[i.get() + 1]; }
        }";
    // With this feature, the place of a panic is a path in the text.
    let with_places = |package: &Path| {
        let manifest = package.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let text = text.replace("device-std = {", "device-std = { features = [\"panic-place\"],");
        fs::write(&manifest, text).unwrap();
    };
    let package = package("whole-program", "");
    with_places(package.path());
    let src = package.path().join("src");
    let module = format!("use device_std::prelude::*;\n{SHIFT}");
    fs::write(src.join("kernels.rs"), &module).unwrap();
    // The build for the GPU does not compile this file.
    fs::write(
        src.join("lib.rs"),
        "mod kernels; pub fn host() -> String { String::new() }",
    )
    .unwrap();
    let Some(built) = compile_with(&Kernels::module(src.join("kernels.rs"))) else {
        return;
    };
    let built = built.unwrap();

    let alone = crate::package("whole-program", SHIFT);
    with_places(alone.path());
    let alone = compile_with(&Kernels::new(alone.path())).unwrap().unwrap();
    assert_eq!(built.entries, alone.entries, "the host asks for this entry");
    assert_eq!(built.ptx.lines().count(), alone.ptx.lines().count());
    let (place, text) = (package.path().canonicalize().unwrap(), constants(&built.ptx));
    assert!(
        text.contains("src/kernels.rs"),
        "the package's features are used: {text:?}"
    );
    assert!(
        !text.contains(place.to_str().unwrap()),
        "the text holds the place of the sources: {text:?}"
    );

    // The module may also be `mod.rs`, with a submodule in a file.
    fs::create_dir(src.join("kernels")).unwrap();
    fs::rename(src.join("kernels.rs"), src.join("kernels/mod.rs")).unwrap();
    let deeper = format!("mod step;\n{}", module.replace("+ 1", "+ step::ONE"));
    fs::write(src.join("kernels/mod.rs"), deeper).unwrap();
    fs::write(src.join("kernels/step.rs"), "pub(super) const ONE: usize = 1;").unwrap();
    let built = compile_with(&Kernels::module(src.join("kernels/mod.rs")))
        .unwrap()
        .unwrap();
    assert_eq!(built.entries, alone.entries);

    let error = Kernels::module(src.join("none.rs"))
        .compile(src.join("target"))
        .unwrap_err();
    assert!(matches!(error, BuildError::NotAKernelCrate { .. }), "{error}");
}

/// The name of the file goes into a source that `kernel-build` writes. A keyword is a name, and
/// Rust code is none.
#[test]
fn a_module_whose_name_is_code_is_refused() {
    let package = package("odd-names", "mod r#match;");
    let src = package.path().join("src");
    let module = format!("use device_std::prelude::*;\n{SCALE}");
    fs::write(src.join("match.rs"), &module).unwrap();
    let Some(built) = compile_with(&Kernels::module(src.join("match.rs"))) else {
        return;
    };
    assert_eq!(built.unwrap().entries.len(), 1);

    let code = "kernels; pub mod more { pub fn hidden() {} } mod last";
    let file = src.join(format!("{code}.rs"));
    fs::write(&file, &module).unwrap();
    // This file would make the code above build.
    fs::write(src.join("kernels.rs"), &module).unwrap();
    fs::write(src.join("last.rs"), "").unwrap();
    let error = Kernels::module(&file).compile(src.join("target")).unwrap_err();
    assert!(matches!(error, BuildError::NotAKernelCrate { .. }), "{error}");
    assert!(
        error.to_string().contains("is not the name of a Rust module"),
        "{error}"
    );
}

#[test]
fn a_module_of_a_package_without_device_std_is_refused() {
    let package = package("without", "mod kernels;");
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text
        .lines()
        .filter(|l| !l.starts_with("device-std"))
        .collect::<Vec<_>>();
    fs::write(&manifest, text.join("\n")).unwrap();
    let file = package.path().join("src/kernels.rs");
    fs::write(&file, SCALE).unwrap();
    let Some(result) = compile_with(&Kernels::module(&file)) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(matches!(error, BuildError::NoDeviceStd { .. }), "{error}");
}

/// The package's root may forbid `unsafe` code, but the build for the GPU does not compile the
/// root.
#[test]
fn a_module_with_unsafe_code_is_refused() {
    let package = package("unsafe-module", "mod kernels;");
    let file = package.path().join("src/kernels.rs");
    let code = "#[cfg(target_arch = \"nvptx64\")] pub fn hidden() { unsafe { core::hint::unreachable_unchecked() } }";
    fs::write(&file, format!("use device_std::prelude::*;\n{SCALE}\n{code}")).unwrap();
    let Some(result) = compile_with(&Kernels::module(&file)) else {
        return;
    };
    let error = result.unwrap_err().to_string();
    assert!(error.contains("usage of an `unsafe` block"), "{error}");
}
