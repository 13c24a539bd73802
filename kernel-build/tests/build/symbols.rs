//! Entries and tables that a crate forges, by an attribute of an older edition or by assembly, in
//! crates that all forbid `unsafe` code.

use std::fs;
use std::path::Path;

use kernel_build::{BuildError, Module};

use crate::{compile, package};

/// A library beside the kernels' package, which depends on nothing.
struct Library<'l> {
    name: &'static str,
    /// The name of its package, which is also a directory. No other package of these tests has it:
    /// all are built in one target directory, where cargo takes two of one name for one package.
    package: &'l str,
    edition: u32,
    source: &'static str,
    /// The text of its `[dependencies]`.
    dependencies: &'static str,
}

/// Adds the library to the package, which depends on it if `is_direct`.
fn add(package: &Path, library: &Library<'_>, is_direct: bool) {
    let directory = package.join(library.package);
    fs::create_dir_all(directory.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = {:?}\nversion = \"0.0.0\"\nedition = \"{}\"\n[lib]\nname = {:?}\n[dependencies]\n{}\n",
        library.package, library.edition, library.name, library.dependencies
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    let source = format!("#![no_std]\n#![forbid(unsafe_code)]\n{}", library.source);
    fs::write(directory.join("src/lib.rs"), source).unwrap();
    if is_direct {
        let manifest = package.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let dependency = format!("{0} = {{ path = {0:?} }}\n[workspace]", library.package);
        fs::write(manifest, text.replace("[workspace]", &dependency)).unwrap();
    }
}

/// Builds kernels of this source, whose crate can use the macros of `forge`, a library of edition
/// 2021.
fn build(name: &str, forge: &'static str, source: &str) -> Option<Result<Module, BuildError>> {
    let package = package(name, source);
    let forge = Library {
        name: "forge",
        package: &format!("{name}-macros"),
        edition: 2021,
        source: forge,
        dependencies: "",
    };
    add(package.path(), &forge, true);
    compile(package.path())
}

/// Expects that the crate is refused for a line with these words.
#[track_caller]
fn assert_refused(result: Option<Result<Module, BuildError>>, krate: &str, words: &str) {
    let Some(result) = result else {
        return;
    };
    let error = result.unwrap_err();
    let BuildError::HiddenUnsafe { diagnostics } = &error else {
        panic!("{error}");
    };
    let line = diagnostics
        .lines()
        .find(|line| line.starts_with("error: refused in a crate for the GPU: "));
    let line = line.unwrap_or_else(|| panic!("{diagnostics}"));
    assert!(
        line.contains(&format!("`{krate}`")) && line.contains(words),
        "{diagnostics}"
    );
}

/// An entry with the two tables of a kernel, by a macro of edition 2021. Every thread got the whole
/// output as a `&mut`, of a length that it chose.
#[test]
fn an_entry_forged_by_a_macro_of_another_edition_is_refused() {
    let forge = r#"
#[macro_export]
macro_rules! entry {
    ($symbol:literal, ($($name:ident: $type:ty),*), $body:block, $rows:expr, $words:expr) => {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[export_name = $symbol]
            pub extern "ptx-kernel" fn entry($($name: $type),*) $body
            #[export_name = concat!("__cuda_rt_layout_", $symbol)]
            pub static LAYOUT: [[u64; 4]; 2] = $rows;
            #[export_name = concat!("__cuda_rt_parameters_", $symbol)]
            pub static PARAMETERS: [u64; 3] = $words;
        };
    };
}"#;
    let used = r#"
#[cfg(target_arch = "nvptx64")]
const ROW: [u64; 4] = { type Out<'k> = PerThread<'k, u32>; device_std::rt::output_layout::<Out<'static>>() };
forge::entry!("k__0123456789abcdef",
    (output: &'static mut [u32; 1 << 28], len: usize, extent: device_std::Extent),
    { output[len + extent.x as usize] = 0xdead_beef; },
    [device_std::rt::launch_layout(1, None), ROW],
    [8 | 8 << 32 | 2 << 48, 8 | 8 << 32, 24 | 8 << 32]);"#;
    // The macro itself is refused: it may be used anywhere.
    let result = build("forged-entry", forge, used);
    assert_refused(result, "forge", "export_name");

    // A macro that writes the word only where it is used.
    let forge = "#[macro_export] macro_rules! named { ($name:ident = $symbol:literal, $($item:tt)*) => { #[$name = $symbol] $($item)* }; }";
    let used = "forge::named!(export_name = \"k__0123456789abcdef\", pub extern \"C\" fn forged() {});";
    let result = build("forged-by-parts", forge, used);
    assert_refused(
        result,
        "forged_by_parts",
        "#[export_name = \"k__0123456789abcdef\"]",
    );
}

/// rustc prints the two tokens of an argument as the start of a comment.
#[test]
fn an_attribute_behind_tokens_that_print_as_a_comment_is_refused() {
    let forge = "
#[macro_export]
macro_rules! glue {
    ($a:tt $plus:tt $b:tt $attribute:meta) => {
        #[rustfmt::skip($a $b)]
        pub fn before() {}
        #[$attribute]
        pub extern \"C\" fn forged() {}
        #[rustfmt::skip(\"*/\")]
        pub fn after() {}
    };
}";
    let result = build("glued-tokens", forge, "forge::glue!(/+ * no_mangle);");
    assert_refused(result, "glued_tokens", "#[no_mangle]");
}

/// The table of an entry was defined a second time, in such a crate, and took the place of the
/// first.
#[test]
fn a_crate_that_no_linker_compares_is_refused() {
    for attribute in [
        "#![no_builtins]",
        "#![cfg_attr(target_arch = \"nvptx64\", no_builtins)]",
    ] {
        let package = package("kernels-beside-no-builtins", "");
        let library = Library {
            name: "alone",
            package: "alone-without-builtins",
            edition: 2024,
            source: attribute,
            dependencies: "",
        };
        add(package.path(), &library, true);
        assert_refused(compile(package.path()), "alone", "no_builtins");
    }
}

/// `no_link` leaves a crate out of the linking, although paths lead into it.
#[test]
fn a_crate_that_is_not_linked_is_refused() {
    let package = package(
        "kernels-beside-no-link",
        "#[no_link] extern crate unlinked;\nconst ONE: u32 = unlinked::ONE;",
    );
    let library = Library {
        name: "unlinked",
        package: "unlinked-crate",
        edition: 2024,
        source: "pub const ONE: u32 = 1;",
        dependencies: "",
    };
    add(package.path(), &library, true);
    assert_refused(compile(package.path()), "kernels_beside_no_link", "no_link");
}

/// An entry by hand, which has the same name wherever it stands.
const ENTRY: &str = "
const CHECKED: () = ();
fn nothing(_: u32) {}
#[cfg(target_arch = \"nvptx64\")]
device_std::__entry! {
    \"k__0123456789abcdef\", nothing(x), parameters = [scalar(x: u32);], index = i: Index1, checked = CHECKED,
}
";

/// LLVM's linker refuses the same, where it sees both crates.
#[test]
fn a_symbol_that_two_crates_define_is_refused() {
    let package = package("one-of-two-entries", ENTRY);
    let source = format!("#![feature(abi_ptx)]\nuse device_std::prelude::*;\n{ENTRY}");
    let device_std = crate::workspace().join("device-std");
    let dependency = format!("device-std = {{ package = \"cuda-handoff-device\", path = {device_std:?} }}");
    let library = Library {
        name: "twice",
        package: "the-same-entry-twice",
        edition: 2024,
        source: source.leak(),
        dependencies: dependency.leak(),
    };
    add(package.path(), &library, true);
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    let BuildError::SymbolTwice { symbol, crates } = &error else {
        panic!("{error}");
    };
    assert!(symbol.ends_with("k__0123456789abcdef"), "{symbol}");
    let mut crates = crates.clone();
    crates.sort();
    assert_eq!(crates, ["one_of_two_entries", "twice"]);
}

/// A function of another crate, declared with another result: LLVM has one declaration of each
/// name.
#[test]
fn an_extern_block_of_another_edition_is_refused() {
    let forge = "
#[macro_export]
macro_rules! declare {
    ($($item:tt)*) => {
        pub fn outer() -> usize { [0u8; { extern /* fn */ \"C\" { $($item)* } 1 }].len() }
    };
}";
    let result = build("extern-block-of-a-macro", forge, "");
    assert_refused(result, "forge", "extern");

    let library = Library {
        name: "declares",
        package: "declares",
        edition: 2018,
        source: "#[allow(unused)] extern { fn k(); }",
        dependencies: "",
    };
    let package = package("extern-block", "");
    add(package.path(), &library, true);
    // No fresh artefact of a refused crate remains.
    for _ in 0..2 {
        assert_refused(compile(package.path()), "declares", "extern {");
    }
}

/// Code that says `unsafe`, and documentation about attributes, are compiled.
#[test]
fn unsafe_attributes_and_documentation_are_compiled() {
    let source = "
//! `#[no_mangle]`, and `extern \"C\" { }`.
/// Not `#[export_name]`.
pub extern \"C\" fn f() {}
// An extern block: no_mangle.
pub type F = extern \"C\" fn();
#[macro_export] macro_rules! k { () => { #[unsafe(no_mangle)] pub extern \"C\" fn g() {} } }
extern crate core as rust;";
    let kernel = "#[kernel] pub fn k(i: Index1, mut out: PerThread<u32>) { if let Some(out) = out.get_mut(i) { *out = 1; } }";
    if let Some(result) = build("honest-symbols", source, kernel) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}

/// Crates of a registry, also of earlier editions, with macros, derives and documentation.
#[test]
fn crates_of_a_registry_are_compiled() {
    let package = package(
        "with-crates-of-a-registry",
        "#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
         #[repr(C)]
         struct Pair { a: u32, b: u32 }
         #[kernel]
         pub fn k(i: Index1, input: &[u64], mut out: PerThread<f32>) {
             let pair: Pair = zerocopy::transmute!(input[i.get()]);
             let half = half::f16::from_bits(pair.a as u16).to_f32();
             if let Some(out) = out.get_mut(i) { *out = half + libm::floorf(bytemuck::cast(pair.b)); }
         }",
    );
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let dependencies = "half = { version = \"2\", default-features = false }
libm = \"0.2\"
bytemuck = \"1\"
zerocopy = { version = \"0.8\", default-features = false, features = [\"derive\"] }
[workspace]";
    fs::write(&manifest, text.replace("[workspace]", dependencies)).unwrap();
    if let Some(result) = compile(package.path()) {
        assert_eq!(result.unwrap().entries.len(), 1);
    }
}

/// PTX by hand, from a safe crate with the name of the device library, whose list of features opens
/// `global_asm!`.
#[test]
fn assembly_outside_functions_is_refused() {
    let package = package("assembly", "pub use helper as _;");
    let macros = Library {
        name: "asmm",
        package: "asmm",
        edition: 2024,
        source: "#[macro_export] macro_rules! ptx { ($($text:literal),*) => { ::core::arch::global_asm!($($text),*); }; }",
        dependencies: "",
    };
    let helper = Library {
        name: "device_std",
        package: "helper",
        edition: 2024,
        source: "#![cfg_attr(target_arch = \"nvptx64\", feature(asm_experimental_arch))]
                 #[cfg(target_arch = \"nvptx64\")] asmm::ptx!(\".visible .entry k__1()\", \"{{ ret; }}\");",
        dependencies: "asmm = { path = \"../asmm\" }",
    };
    add(package.path(), &macros, false);
    add(package.path(), &helper, false);
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let dependency = "helper = { package = \"helper\", path = \"helper\" }\n[workspace]";
    fs::write(&manifest, text.replace("[workspace]", dependency)).unwrap();
    // Cargo gives a renamed dependency its new name, so two libraries `device_std` can be used.
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::Assembly { crates } if crates == &["`device_std`"]),
        "{error}"
    );
}

/// rustc reads more arguments from a file where a build script names one, in the place of a value.
#[test]
fn arguments_in_a_file_are_refused() {
    let package = package("arguments-in-a-file", "");
    fs::write(package.path().join("arguments"), "a\n-Cpasses=globalopt\n").unwrap();
    for kind in ["rustc-cfg", "rustc-check-cfg"] {
        let script = format!(
            "fn main() {{ println!(\"cargo::{kind}=@{{}}/arguments\", std::env::var(\"CARGO_MANIFEST_DIR\").unwrap()); }}"
        );
        fs::write(package.path().join("build.rs"), script).unwrap();
        let Some(result) = compile(package.path()) else {
            return;
        };
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BuildError::HiddenUnsafe { diagnostics } if diagnostics.contains("from a file")),
            "{kind}: {error}"
        );
    }
}
