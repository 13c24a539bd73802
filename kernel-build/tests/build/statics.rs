//! Statics that a source hides from the search: it tells the two compilations apart, or the search
//! looks at no crate.

use std::fs;
use std::path::{Path, PathBuf};

use kernel_build::{BuildError, Kernels};

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
