//! What is unsafe without the word `unsafe` in editions before 2024: foreign blocks, and attributes
//! that name symbols. The crates have `forbid(unsafe_code)`.

use std::fs;
use std::path::Path;

use kernel_build::{BuildError, Kernels};

use super::depend;
use crate::{compile, compile_with, package};

/// Declares a function of another crate once more. LLVM has one declaration of each name, and
/// would trust this one.
const FOREIGN: &str = "extern \"C\" { pub fn vprintf(format: *const u8, arguments: *const u8) -> i32; }";

const KERNEL: &str = "#[kernel]
pub fn k(i: Index1, mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) { *out = 7; }
}
";

/// Gives the edition 2021 to the package in this directory.
fn make_older(package: &Path) {
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("edition = \"2024\""), "{text}");
    fs::write(
        &manifest,
        text.replace("edition = \"2024\"", "edition = \"2021\""),
    )
    .unwrap();
}

/// Compiles the kernels, and expects that a diagnostic has these words.
#[track_caller]
fn assert_refused(kernels: &Kernels, words: &str) {
    let Some(result) = compile_with(kernels) else {
        return;
    };
    match result {
        Err(BuildError::Compile { diagnostics }) => assert!(diagnostics.contains(words), "{diagnostics}"),
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn a_foreign_block_without_unsafe_is_refused() {
    for (source, words) in [
        (FOREIGN.to_owned(), "extern blocks should be unsafe"),
        (
            format!("macro_rules! own {{ ($($item:tt)*) => {{ $($item)* }} }}\nown! {{ {FOREIGN} }}"),
            "extern blocks should be unsafe",
        ),
        (
            format!("#[allow(missing_unsafe_on_extern)] mod m {{ {FOREIGN} }}"),
            "error[E0453]",
        ),
    ] {
        let package = package("foreign-block", &format!("{source}\n{KERNEL}"));
        make_older(package.path());
        let manifest = package.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let lints = "[lints.rust]\nmissing_unsafe_on_extern = \"allow\"\n";
        fs::write(manifest, text + lints).unwrap();
        assert_refused(&Kernels::new(package.path()), words);
    }
}

#[test]
fn a_foreign_block_in_a_dependency_or_in_a_module_is_refused() {
    let package = package("foreign-block-elsewhere", KERNEL);
    depend(package.path(), FOREIGN);
    make_older(&package.path().join("mir"));
    assert_refused(&Kernels::new(package.path()), "extern blocks should be unsafe");

    let module = self::package("foreign-block-of-a-module", "mod kernels;");
    make_older(module.path());
    let file = module.path().join("src/kernels.rs");
    let source = format!("use device_std::prelude::*;\n{KERNEL}");
    fs::write(
        &file,
        format!("{source}\n#[cfg(target_arch = \"nvptx64\")]\n{FOREIGN}"),
    )
    .unwrap();
    assert_refused(&Kernels::module(&file), "extern blocks should be unsafe");
    fs::write(&file, source).unwrap();
    if let Some(result) = compile_with(&Kernels::module(&file)) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}

/// In these editions rustc accepts the attributes without `unsafe( )`.
#[test]
fn an_attribute_that_names_a_symbol_is_refused() {
    for attributed in [
        "#[no_mangle] pub fn vprintf() {}",
        "#[cfg_attr(all(), export_name = \"vprintf\")] pub fn f() {}",
        "pub struct S; impl S { #[export_name = \"vprintf\"] pub fn f() {} }",
        "#[link_section = \".x\"] pub static X: u32 = 1;",
    ] {
        let package = package("symbols", &format!("{attributed}\n{KERNEL}"));
        make_older(package.path());
        assert_refused(&Kernels::new(package.path()), "declaration of a ");
    }
}

/// rustc reports no lint about what the macro of another crate wrote. In a macro of edition 2021,
/// a foreign block needs no `unsafe`, also where a crate of edition 2024 uses the macro.
#[test]
fn a_macro_of_an_older_edition_is_refused() {
    let foreign = format!("macro_rules! foreign {{ () => {{ {FOREIGN} }} }}");
    let mangled = "macro_rules! foreign { () => { #[no_mangle] pub fn vprintf() {} } }";
    for exported in [
        format!("#[macro_export] {foreign}"),
        format!("#[cfg_attr(all(), macro_export)] {mangled}"),
        format!(
            "macro_rules! hidden {{ ($of:item) => {{ #[r#macro_export] $of }} }}\nhidden! {{ {foreign} }}"
        ),
    ] {
        let package = package("older-macro", &format!("mir::foreign!();\n{KERNEL}"));
        depend(package.path(), &exported);
        // The twin: rustc itself refuses the macro's code in edition 2024.
        if exported.starts_with("#[macro_export]") {
            assert_refused(&Kernels::new(package.path()), "extern blocks must be unsafe");
        }
        make_older(&package.path().join("mir"));
        assert_refused(&Kernels::new(package.path()), "the crate `mir` exports a macro");
    }
}

#[test]
fn crates_of_an_older_edition_without_exported_macros_build() {
    let source = format!(
        "{KERNEL}\nmacro_rules! seven {{ () => {{ 7 }} }}\npub const SEVEN: u32 = mir::SEVEN + seven!();"
    );
    let package = package("older", &source);
    depend(
        package.path(),
        "macro_rules! seven { () => { 7 } }\npub const SEVEN: u32 = seven!();",
    );
    make_older(&package.path().join("mir"));
    make_older(package.path());
    if let Some(result) = compile(package.path()) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}
