//! Statics that a source hides from the search: it tells the two compilations apart, or the search
//! looks at no crate.

use std::fs;
use std::path::{Path, PathBuf};

use kernel_build::{BuildError, Kernels, Module};

use crate::features::depend_on;
use crate::{BUILD, compile, package};

/// Block-level code that reads what threads wrote. The static `SLOT` is mutable if `HIDDEN` is
/// false.
const KERNEL: &str = "
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
pub trait Slot: Sync { const NEW: Self; fn put(&self, _: u32) {} fn take(&self) -> u32 { 0 } }
impl Slot for () { const NEW: Self = (); }
impl Slot for AtomicU32 {
    const NEW: Self = AtomicU32::new(0);
    fn put(&self, v: u32) { self.store(v, Relaxed) }
    fn take(&self) -> u32 { self.load(Relaxed) }
}
pub struct Choose<const HIDDEN: bool>;
pub trait Chosen { type T: Slot + 'static; }
impl Chosen for Choose<true> { type T = (); }
impl Chosen for Choose<false> { type T = AtomicU32; }
type Here = <Choose<HIDDEN> as Chosen>::T;
static SLOT: Here = <Here as Slot>::NEW;
const fn has(hay: &str, needle: &str) -> bool {
    let (h, n) = (hay.as_bytes(), needle.as_bytes());
    let mut at = 0;
    while at + n.len() <= h.len() {
        let mut k = 0;
        while k < n.len() && h[at + k] == n[k] { k += 1; }
        if k == n.len() { return true; }
        at += 1;
    }
    false
}
#[kernel(block = 64)]
pub fn k(mut block: Block, table: &[u32], mut out: PerThread<u32>) {
    let _ = block.ballot(|lane| { SLOT.put(lane.index() as u32); true });
    let seen = table.get(SLOT.take() as usize).copied().unwrap_or(0);
    block.threads(|t| if let Some(i) = t.index_in_launch() { out.set(i, seen) });
}
";

fn is_found(source: &str) {
    let package = package("hides-a-static", source);
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    let names = match &error {
        BuildError::MutableStatic { names } => names,
        _ => panic!("{error}"),
    };
    assert!(names.iter().any(|name| name.ends_with("::SLOT`")), "{names:?}");
}

/// The environment holds the profile's directory. Only one of the compilations has this name in it.
#[test]
fn a_static_hidden_by_the_name_of_a_directory_is_refused() {
    let hidden = "const HIDDEN: bool = match option_env!(\"LD_LIBRARY_PATH\") { Some(p) => has(p, \"statics\"), None => false };";
    is_found(&format!("{hidden}{KERNEL}"));
}

/// Both compilations show the sources the same paths.
#[test]
fn a_static_hidden_by_the_path_of_its_file_is_refused() {
    let hidden = "const HIDDEN: bool = file!().as_bytes()[0] == b'/';";
    is_found(&format!("{hidden}{KERNEL}"));
}

/// Both compilations compile each crate for the architecture of the kernels.
#[test]
fn a_static_of_a_dependency_hidden_by_the_architecture_is_refused() {
    let package = package(
        "hides-by-architecture",
        "#[kernel(block = 64)]
         pub fn k(mut block: Block, table: &[u32], mut out: PerThread<u32>) {
             let _ = block.ballot(|lane| { slot::put(lane.index() as u32); true });
             let seen = table.get(slot::take() as usize).copied().unwrap_or(0);
             block.threads(|t| if let Some(i) = t.index_in_launch() { out.set(i, seen) });
         }",
    );
    let slot = package.path().join("slot");
    fs::create_dir_all(slot.join("src")).unwrap();
    let manifest = "[package]\nname = \"slot\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    fs::write(slot.join("Cargo.toml"), manifest).unwrap();
    let source = |hides_in: &str| {
        format!(
            "#![no_std]
             #![forbid(unsafe_code)]
             #[cfg({hides_in})]
             mod slot {{ pub fn put(_: u32) {{}} pub fn take() -> u32 {{ 0 }} }}
             #[cfg(not({hides_in}))]
             mod slot {{
                 use core::sync::atomic::{{AtomicU32, Ordering::Relaxed}};
                 static SLOT: AtomicU32 = AtomicU32::new(0);
                 #[inline(always)] pub fn put(v: u32) {{ SLOT.store(v, Relaxed) }}
                 #[inline(always)] pub fn take() -> u32 {{ SLOT.load(Relaxed) }}
             }}
             pub use slot::{{put, take}};"
        )
    };
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("[workspace]", "slot = { path = \"slot\" }\n[workspace]");
    fs::write(&manifest, text).unwrap();
    // One of the two has no static, in either compilation: it is built.
    let mut built = 0;
    for hides_in in ["target_feature = \"sm_80\"", "not(target_feature = \"sm_80\")"] {
        fs::write(slot.join("src/lib.rs"), source(hides_in)).unwrap();
        let Some(result) = compile(package.path()) else {
            return;
        };
        match result {
            Ok(module) => {
                built += 1;
                let lines: Vec<&str> = module.ptx.lines().collect();
                assert!(!lines.iter().any(|line| line.contains("SLOT")), "{}", module.ptx);
            }
            Err(error) => assert!(matches!(error, BuildError::MutableStatic { .. }), "{error}"),
        }
    }
    assert_eq!(built, 1);
}

/// Cargo prints absolute paths. The search compares them with a directory that may be relative.
#[test]
fn a_static_is_found_from_a_relative_target_directory() {
    let package = package(
        "relative-directory",
        &format!("const HIDDEN: bool = false;{KERNEL}"),
    );
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let relative = up.join(target.strip_prefix("/").unwrap_or(&target));
    let _build = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match Kernels::new(package.path()).compile(relative) {
        Err(BuildError::NoRustup(_) | BuildError::NoToolchain { .. } | BuildError::NoRustSrc { .. }) => {
            eprintln!("SKIPPED: no nightly compiler");
        }
        result => assert!(
            matches!(&result, Err(BuildError::MutableStatic { .. })),
            "{:?}",
            result.map(|module| module.entries)
        ),
    }
}

/// Where the tests build.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")
}

/// The directories of the outputs of this package's build script.
fn script_directories(package: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![target()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.join("out").is_dir() && name.starts_with(&format!("{package}-")) {
                found.push(name);
            } else if path.is_dir() && !name.starts_with('.') {
                rest.push(path);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The static of `KERNEL`, and functions around it of which LLVM makes none in the end.
fn slot() -> String {
    let slot = &KERNEL[..KERNEL.find("#[kernel(block = 64)]").unwrap()];
    format!(
        "{slot}
        pub fn put(v: u32) {{ g(1); g(2); SLOT.put(v); g(3); g(v) }}
        pub fn take() -> u32 {{ g(1); g(2); g(3); g(4); SLOT.take() }}
        pub fn g(_: u32) {{ h(1); h(2); h(3); h(4) }}
        pub fn h(_: u32) {{ i(1); i(2); i(3); i(4) }}
        pub fn i(_: u32) {{}}
        "
    )
}

/// Builds a package whose static is hidden by the condition `HIDDEN`, for each directory of outputs
/// that an empty build script has. A program that is built has no static.
fn is_not_hidden_by_a_directory(name: &str, build: impl Fn(&str) -> Option<Result<Module, BuildError>>) {
    let Some(plain) = build("const HIDDEN: bool = { let _ = env!(\"OUT_DIR\"); true };") else {
        return;
    };
    let plain = plain.unwrap().ptx;
    // Cargo's names do not depend on the place of the workspace, so they may be of earlier tests.
    let known = script_directories(name);
    assert!(!known.is_empty());
    let mut refused = 0;
    for directory in &known {
        for not in ["", "!"] {
            let hidden = format!("const HIDDEN: bool = {not}has(env!(\"OUT_DIR\"), {directory:?});");
            match build(&hidden).unwrap() {
                Ok(module) => assert_eq!(module.ptx, plain, "{hidden}"),
                Err(BuildError::MutableStatic { .. }) => refused += 1,
                Err(error) => panic!("{hidden}: {error}"),
            }
        }
    }
    // Of a condition and its opposite, one hides nothing.
    assert!(refused >= known.len(), "{known:?}");
}

/// The name of a build script's directory was another one in each compilation.
#[test]
fn a_static_hidden_by_the_outputs_of_a_build_script_is_refused() {
    let name = "hides-by-its-outputs";
    let package = package(name, "");
    fs::write(package.path().join("build.rs"), "fn main() {}").unwrap();
    let root = package.path().join("src/lib.rs");
    let head = fs::read_to_string(&root).unwrap();
    is_not_hidden_by_a_directory(name, |hidden| {
        fs::write(&root, format!("{head}{hidden}{}{}", slot(), reader("crate"))).unwrap();
        compile(package.path())
    });
}

#[test]
fn a_static_of_a_dependency_hidden_by_the_outputs_of_a_build_script_is_refused() {
    let name = "slot_by_directory";
    let package = package("hides-by-outputs-of-a-dependency", &reader(name));
    depend_on(package.path(), name, "");
    fs::write(package.path().join(name).join("build.rs"), "fn main() {}").unwrap();
    let root = package.path().join(name).join("src/lib.rs");
    let head = fs::read_to_string(&root).unwrap();
    is_not_hidden_by_a_directory(name, |hidden| {
        fs::write(&root, format!("{head}{hidden}{}", slot())).unwrap();
        compile(package.path())
    });
}

/// Block-level code that reads what threads wrote into the static of the crate `name`, if it has
/// one. LLVM makes a register of the static, so that the optimised module does not show it.
fn reader(name: &str) -> String {
    format!(
        "#[kernel(block = 64)]
         pub fn k(mut block: Block, mut out: PerThread<u32>) {{
             let _ = block.map(|lane| {name}::put(lane.index() as u32));
             let seen = {name}::take();
             block.threads(|t| if let Some(i) = t.index_in_launch() {{
                 if i.get() < out.len() {{ out.set(i, seen) }}
             }});
         }}"
    )
}

const WITHOUT: &str = "#![no_std]
#![forbid(unsafe_code)]
#[inline(never)] pub fn put(_: u32) {}
#[inline(never)] pub fn take() -> u32 { 0 }
";

/// Two modules, which rustc compiles in two units if it may. `put` and `take` are inlined in no
/// other crate, so no other crate names the static.
const WITH: &str = "#![no_std]
#![forbid(unsafe_code)]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
static SLOT: AtomicU32 = AtomicU32::new(0);
pub fn put(v: u32) { other::g(1); other::g(2); SLOT.store(v, Relaxed); other::g(3); other::g(v) }
pub fn take() -> u32 { other::g(1); other::g(2); other::g(3); other::g(4); SLOT.load(Relaxed) }
pub mod other {
    pub fn g(_: u32) { h(1); h(2); h(3); h(4) }
    pub fn h(_: u32) { i(1); i(2); i(3); i(4) }
    pub fn i(_: u32) {}
}
";

/// The search took the LLVM module of an earlier build: rustc writes none if it makes a crate in
/// many units.
#[test]
fn a_static_behind_the_module_of_an_earlier_build_is_refused() {
    for (settings, key) in [
        ("codegen-units = 16\nincremental = true\n", "codegen-units"),
        ("incremental = true\n", "incremental"),
        ("opt-level = 1\n", "opt-level"),
    ] {
        let package = package("behind-an-earlier-module", &reader("slot_of_two_builds"));
        depend_on(package.path(), "slot_of_two_builds", "");
        let manifest = package.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let profile = "[profile.cuda-rt-kernels]\ninherits = \"release\"\n\
            [profile.cuda-rt-kernels.package.slot_of_two_builds]\n";
        fs::write(&manifest, format!("{text}{profile}{settings}")).unwrap();
        for source in [WITHOUT, WITH] {
            fs::write(package.path().join("slot_of_two_builds/src/lib.rs"), source).unwrap();
            match compile(package.path()) {
                None => return,
                Some(Err(BuildError::ProfileSetting {
                    krate, key: named, ..
                })) => assert_eq!((krate.as_str(), named.as_str()), ("slot_of_two_builds", key)),
                Some(other) => panic!("{key}: {other:?}"),
            }
        }
    }
}

/// The search looked at one version of a crate, and the kernels had another: cargo took one output
/// of the crate for fresh, because the file is older than it, and the other was not made yet.
#[test]
fn a_static_in_a_file_older_than_the_last_build_is_not_built() {
    let name = "slot_in_an_old_file";
    let package = package("behind-an-old-file", &reader(name));
    depend_on(package.path(), name, "");
    let slot = package.path().join(name).join("src");
    let root = package.path().join("src/lib.rs");
    let good = fs::read_to_string(&root).unwrap();
    fs::write(slot.join("lib.rs"), WITHOUT).unwrap();
    fs::write(slot.join("new.rs"), WITH).unwrap();
    fs::write(&root, format!("{good}fn no_value() -> u32 {{ }}")).unwrap();
    match compile(package.path()) {
        None => return,
        Some(Err(BuildError::Compile { .. })) => {}
        Some(other) => panic!("{other:?}"),
    }
    fs::rename(slot.join("new.rs"), slot.join("lib.rs")).unwrap();
    fs::write(&root, &good).unwrap();
    let old = compile(package.path()).unwrap();
    // Cargo takes the crate for fresh, as it would in any build.
    fs::write(slot.join("lib.rs"), WITHOUT).unwrap();
    let plain = compile(package.path()).unwrap().unwrap();
    match old {
        Ok(module) => assert_eq!(module.ptx, plain.ptx),
        Err(error) => assert!(matches!(error, BuildError::MutableStatic { .. }), "{error}"),
    }
    fs::write(slot.join("lib.rs"), WITH).unwrap();
    let error = compile(package.path()).unwrap().unwrap_err();
    assert!(matches!(error, BuildError::MutableStatic { .. }), "{error}");
}

/// A crate that cargo takes for fresh, and of which the search finds no module, is not built.
#[test]
fn a_fresh_crate_without_its_module_is_refused() {
    let name = "slot_without_a_module";
    let package = package("without-a-module", &reader(name));
    depend_on(package.path(), name, "");
    fs::write(package.path().join(name).join("src/lib.rs"), WITHOUT).unwrap();
    let Some(built) = compile(package.path()) else {
        return;
    };
    built.unwrap();
    let mut rest = vec![target()];
    let mut removed = 0;
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                rest.push(path);
            } else if file.starts_with(name) && file.ends_with(".search.ll") {
                fs::remove_file(path).unwrap();
                removed += 1;
            }
        }
    }
    assert_eq!(removed, 1);
    let error = compile(package.path()).unwrap().unwrap_err();
    assert!(
        matches!(&error, BuildError::Unsearched { what } if what.contains(name) && what.contains("build again")),
        "{error}"
    );
}
