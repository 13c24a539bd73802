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

/// Compiles the kernels, and expects that a line with these words is refused.
#[track_caller]
fn assert_refused(kernels: &Kernels, words: &str) {
    let Some(result) = compile_with(kernels) else {
        return;
    };
    match result {
        Err(BuildError::HiddenUnsafe { diagnostics }) => {
            assert!(diagnostics.contains(words), "{diagnostics}")
        }
        other => panic!("{words}: {other:?}"),
    }
}

/// Compiles the kernels, and expects that the lint `unsafe_code` refuses an attribute.
#[track_caller]
fn assert_lint(kernels: &Kernels) {
    match compile_with(kernels) {
        None => {}
        Some(Err(BuildError::Compile { diagnostics })) => {
            assert!(diagnostics.contains("declaration of a "), "{diagnostics}");
        }
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_foreign_block_without_unsafe_is_refused() {
    for source in [
        FOREIGN.to_owned(),
        format!("macro_rules! own {{ ($($item:tt)*) => {{ $($item)* }} }}\nown! {{ {FOREIGN} }}"),
        format!("#[allow(missing_unsafe_on_extern)] mod m {{ {FOREIGN} }}"),
        format!("pub const fn f() -> usize {{ const {{ {FOREIGN} 1 }} }}"),
    ] {
        let package = package("foreign-block", &format!("{source}\n{KERNEL}"));
        make_older(package.path());
        let manifest = package.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let lints = "[lints.rust]\nmissing_unsafe_on_extern = \"allow\"\n";
        fs::write(manifest, text + lints).unwrap();
        assert_refused(&Kernels::new(package.path()), "extern \"C\" {");
    }
}

#[test]
fn a_foreign_block_in_a_dependency_or_in_a_module_is_refused() {
    let package = package("foreign-block-elsewhere", KERNEL);
    depend(package.path(), FOREIGN);
    make_older(&package.path().join("mir"));
    assert_refused(&Kernels::new(package.path()), "extern \"C\" {");

    let module = self::package("foreign-block-of-a-module", "mod kernels;");
    make_older(module.path());
    let file = module.path().join("src/kernels.rs");
    let source = format!("use device_std::prelude::*;\n{KERNEL}");
    fs::write(
        &file,
        format!("{source}\n#[cfg(target_arch = \"nvptx64\")]\n{FOREIGN}"),
    )
    .unwrap();
    assert_refused(&Kernels::module(&file), "extern \"C\" {");
    fs::write(&file, source).unwrap();
    if let Some(result) = compile_with(&Kernels::module(&file)) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}

/// In these editions rustc accepts the attributes without `unsafe( )`. Its lint `unsafe_code` knows
/// them in the crate's own text, and not in the macro of another crate.
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
        assert_lint(&Kernels::new(package.path()));
        let exported = "#[macro_export] macro_rules! given { ($($item:tt)*) => { $($item)* } }";
        depend(package.path(), exported);
        let root = package.path().join("src/lib.rs");
        let text = fs::read_to_string(&root).unwrap();
        let text = text.replace(attributed, &format!("mir::given! {{ {attributed} }}"));
        let text = text.replace("#![forbid(unsafe_code)]", "");
        fs::write(root, text).unwrap();
        let name = attributed.split(['[', ' ', ']', ',']);
        let is_attribute = |word: &&str| ["no_mangle", "export_name", "link_section"].contains(word);
        let name = name.into_iter().find(is_attribute).unwrap();
        assert_refused(&Kernels::new(package.path()), &format!("#[{name}"));
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
        make_older(&package.path().join("mir"));
        assert_refused(&Kernels::new(package.path()), "the crate `mir` has");
    }
}

#[test]
fn crates_of_an_older_edition_build() {
    let source = format!(
        "{KERNEL}\nmacro_rules! seven {{ () => {{ 7 }} }}\npub const SEVEN: u32 = mir::SEVEN + seven!();"
    );
    let package = package("older", &source);
    depend(
        package.path(),
        "#[macro_export] macro_rules! seven { () => { 7 } }\npub const SEVEN: u32 = seven!();",
    );
    make_older(&package.path().join("mir"));
    make_older(package.path());
    if let Some(result) = compile(package.path()) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}
