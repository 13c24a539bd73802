//! Small crates, built for the GPU. Without a nightly compiler and its sources, tests are skipped.

mod aliases;
mod backend;
mod by_hand;
mod constant;
mod features;
mod local_memory;
mod loops;
mod modules;
mod nans;
mod openings;
mod proof;
mod script;
mod shared_memory;
mod sources;
mod statics;
mod symbols;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kernel_build::{BuildError, Kernels, Module};

/// One build runs at a time, in one target directory, so that `core` is compiled once.
static BUILD: Mutex<()> = Mutex::new(());

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Builds a crate. Without a nightly compiler, prints this and returns `None`.
fn compile(crate_dir: &Path) -> Option<Result<Module, BuildError>> {
    compile_with(&Kernels::new(crate_dir))
}

fn compile_with(kernels: &Kernels) -> Option<Result<Module, BuildError>> {
    let _build = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    match kernels.compile(target) {
        Err(
            error @ (BuildError::NoRustup(_) | BuildError::NoToolchain { .. } | BuildError::NoRustSrc { .. }),
        ) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        result => Some(result),
    }
}

/// A package of this name and source, with the workspace's versions of all dependencies.
fn package(name: &str, source: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\ndevice-std = {{ package = \"cuda-handoff-device\", path = {:?} }}\n[workspace]\n",
        workspace().join("device-std")
    );
    fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(
        workspace().join("Cargo.lock"),
        directory.path().join("Cargo.lock"),
    )
    .unwrap();
    fs::create_dir(directory.path().join("src")).unwrap();
    let root = "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]\n#![forbid(unsafe_code)]\nuse device_std::prelude::*;\n";
    fs::write(directory.path().join("src/lib.rs"), format!("{root}{source}")).unwrap();
    directory
}

#[test]
fn a_kernel_becomes_an_entry_with_its_table() {
    let package = package(
        "one-kernel",
        "#[derive(Clone, Copy, device_std::bytemuck::Pod, device_std::bytemuck::Zeroable, Element)]
         #[bytemuck(crate = \"device_std::bytemuck\")]
         #[repr(C)]
         struct Point { x: f32, y: f32 }
         #[kernel]
         fn shift(i: Index1, mut points: PerThread<Point>, by: Point, back: bool) {
             let sign = if back { -1.0 } else { 1.0 };
             if let Some(p) = points.get_mut(i) { p.x += sign * by.x; p.y += sign * by.y; }
         }",
    );
    let Some(module) = compile(package.path()) else {
        return;
    };
    let module = module.unwrap();
    let [entry] = module.entries.as_slice() else {
        panic!("{:?}", module.entries)
    };
    assert!(entry.starts_with("shift__"), "{entry}");
    assert!(module.ptx.contains(".target sm_80") && module.ptx.contains(".version 7.0"));
    assert!(module.ptx.contains(&format!("__cuda_rt_layout_{entry}[128]")));
}

/// An entry gets its thread's index from these functions. A kernel that could call them would reach
/// another thread's element.
#[test]
fn an_index_made_by_hand_is_refused() {
    for by_hand in [
        "<Index1<'static> as device_std::rt::entry::EntryIndex>::current(extent)",
        "device_std::rt::entry::index::<Index1<'static>>(extent)",
    ] {
        let package = package(
            "index-by-hand",
            &format!(
                "fn mine() -> Option<Index1<'static>> {{
                     let extent = device_std::Extent {{ x: u64::MAX, y: 1, z: 1 }};
                     {by_hand}
                 }}
                 #[kernel]
                 fn one_for_a_column(_i: Index2, mut out: PerThread<u32>) {{
                     if let Some(out) = mine().and_then(|i| out.get_mut(i)) {{ *out += 1; }}
                 }}"
            ),
        );
        let Some(refused) = compile(package.path()) else {
            return;
        };
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, BuildError::Compile { diagnostics } if diagnostics.contains("error[E0133]")),
            "{error}"
        );
    }
}

const SCALE: &str = "#[kernel]
     fn scale(i: Index1, mut data: PerThread<f32>, by: f32) {
         if let Some(value) = data.get_mut(i) { *value *= by; }
     }";

/// Kernels with every kind of parameter. All names are full paths, because the crate around the
/// kernels may shadow any name.
const ALL_PARAMETERS: &str = "
     extern crate core as rust;
     #[derive(
         ::rust::clone::Clone, ::rust::marker::Copy, ::device_std::bytemuck::Pod, ::device_std::bytemuck::Zeroable,
         ::device_std::Element,
     )]
     #[bytemuck(crate = \"::device_std::bytemuck\")]
     #[repr(C)]
     pub struct Pair { a: ::rust::primitive::f32, b: ::rust::primitive::u32 }
     #[::device_std::kernel]
     fn scale(
         i: ::device_std::Index1, input: &[Pair], mut output: ::device_std::PerThread<::rust::primitive::u32>,
         counts: ::device_std::Atomic<::rust::primitive::u32>, by: Pair, more: ::rust::primitive::bool,
     ) {
         if let ::rust::option::Option::Some(out) = output.get_mut(i) {
             *out = input[i.get()].b * by.b + more as ::rust::primitive::u32;
             counts.fetch_add(&i, 0, *out);
         }
     }
     #[::device_std::kernel(block = 64)]
     fn sums(
         mut block: ::device_std::Block, first: ::device_std::BlockUninit<::rust::primitive::u32, 2>,
         second: ::device_std::BlockUninit<::rust::primitive::f32, 2>, input: &[::rust::primitive::u32],
         mut out: ::device_std::PerBlock<::rust::primitive::f32>,
     ) {
         let values = block.map(|lane| input[lane.position()]);
         let first = first.init_per_warp(&mut block, |thread| values.get(thread));
         let first = first.view();
         let both = block.map_shared(|thread| first.slice(thread)[0] + first.slice(thread)[1]);
         let second = second.init_per_warp(&mut block, |thread| both.get(thread) as ::rust::primitive::f32);
         let second = second.view();
         let all = block.map_shared(|thread| second.slice(thread)[1]);
         out.set_from_first(&block, &all);
     }
     #[::device_std::kernel]
     fn plane(i: ::device_std::Index2, mut output: ::device_std::PerThread<::rust::primitive::u8>) {
         if let ::rust::option::Option::Some(out) = output.get_mut(i) { *out = 1; }
     }";

/// Items that shadow the names which an entry and an element's layout use: `core`, the prelude,
/// primitive types, macros.
const SHADOWS: &str = "
     extern crate self as core;
     macro_rules! env { ($($any:tt)*) => { \"another\" }; }
     macro_rules! stringify { ($($any:tt)*) => { \"another name\" }; }
     macro_rules! concat { ($($any:tt)*) => { \"another::name\" }; }
     pub mod mem {
         pub use ::rust::mem::size_of;
         macro_rules! another { ($($any:tt)*) => { 0 }; }
         pub(crate) use another as offset_of;
     }
     pub mod option { pub struct Option<T>(T); }
     pub mod primitive { pub type u64 = ::rust::primitive::u32; pub type usize = ::rust::primitive::u8; }
     pub struct Option;
     pub struct Some;
     pub struct str;
     pub type u64 = ::rust::primitive::u32;
     pub type usize = ::rust::primitive::u8;
     pub mod rt {}
     pub struct Block;
     pub struct Index1;
     pub struct OFFSET;
     pub trait Len: Sized { fn len(self) {} }
     impl<T> Len for T {}
     ";

#[test]
fn a_hostile_crate_of_kernels_has_the_ptx_of_an_honest_one() {
    let text = |source: &str| {
        let package = package("hostile", source);
        let root = package.path().join("src/lib.rs");
        let text = fs::read_to_string(&root).unwrap();
        fs::write(
            &root,
            text.replace("use device_std::prelude::*;\n", "#![allow(warnings)]\n"),
        )
        .unwrap();
        compile(package.path()).map(|module| module.unwrap().ptx)
    };
    let hostile = text(&format!("{SHADOWS}{ALL_PARAMETERS}"));
    let (Some(honest), Some(hostile)) = (text(ALL_PARAMETERS), hostile) else {
        return;
    };
    assert_eq!(honest.matches(".entry ").count(), 3, "{honest}");
    assert_eq!(instructions(&honest), instructions(&hostile));
    let tables = |ptx: &str| -> Vec<String> {
        let lines = ptx.lines().filter(|line| line.contains("__cuda_rt_layout_"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(tables(&honest).len(), 3, "{honest}");
    assert_eq!(tables(&honest), tables(&hostile));
}

/// With a constant for a pattern, the entry wrote behind the constant's address.
#[test]
fn constants_of_the_crate_do_not_stand_for_variables_of_an_entry() {
    const KERNEL: &str = "
        #[kernel]
        pub fn twice(i: Index1, mut output: PerThread<u32>) {
            if let Some(out) = output.get_mut(i) { *out *= 2; }
        }";
    for constant in ["const start: &mut [u32; 0] = &mut [];", "const len: usize = 1;"] {
        let package = package("constants", &format!("{constant}{KERNEL}"));
        let Some(result) = compile(package.path()) else {
            return;
        };
        let error = result.unwrap_err().to_string();
        assert!(error.contains("E0530") && error.contains(constant), "{error}");
    }
}

#[test]
fn each_architecture_is_a_module_with_the_same_entries() {
    let package = package("two-architectures", SCALE);
    let kernels = Kernels::new(package.path())
        .architecture("sm_80")
        .architecture("sm_90")
        .architecture("sm_80");
    let Some(module) = compile_with(&kernels) else {
        return;
    };
    let module = module.unwrap();
    let again = compile_with(&kernels).unwrap().unwrap();
    assert!(
        module.ptx == again.ptx,
        "a second build gives the text of the first"
    );
    let targets: Vec<&str> = module
        .ptx
        .lines()
        .filter_map(|l| l.strip_prefix(".target "))
        .collect();
    assert_eq!(targets, ["sm_80", "sm_90"]);
    assert_eq!(module.entries.len(), 1);
    assert_eq!(
        module
            .ptx
            .matches(&format!(".entry {}", module.entries[0]))
            .count(),
        2
    );
}

#[test]
fn an_architecture_that_the_compiler_does_not_know_is_refused() {
    let package = package("no-such-architecture", SCALE);
    let Some(result) = compile_with(&Kernels::new(package.path()).architecture("sm_12")) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(error.to_string().contains("sm_12"), "{error}");
}

#[test]
fn debug_info_adds_lines_and_changes_no_instruction() {
    let package = package("with-lines", SCALE);
    let plain = Kernels::new(package.path());
    let (Some(plain), Some(lined)) = (
        compile_with(&plain),
        compile_with(&plain.clone().debug_info(true)),
    ) else {
        return;
    };
    let (plain, lined) = (plain.unwrap().ptx, lined.unwrap().ptx);
    assert!(!plain.contains(".loc") && lined.contains("\t.loc\t"), "{lined}");
    let source = package.path().canonicalize().unwrap().join("src/lib.rs");
    let named = lined
        .lines()
        .any(|l| l.starts_with("\t.file") && l.contains(&format!("{}\"", source.display())));
    assert!(named, "no profiler finds the source in\n{lined}");
    assert_eq!(instructions(&plain), instructions(&lined));
    assemble(&lined);
}

/// The lines of the text that are instructions.
fn instructions(ptx: &str) -> Vec<&str> {
    let is_code = |line: &&str| line.starts_with('\t') && line.ends_with(';') && !line.starts_with("\t.");
    ptx.lines().filter(is_code).collect()
}

/// Assembles the text with NVIDIA's assembler, if `PTXAS` names it.
fn assemble(ptx: &str) {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        eprintln!("SKIPPED: whether ptxas takes the lines: PTXAS is not set");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kernels.ptx");
    fs::write(&file, ptx).unwrap();
    let output = std::process::Command::new(ptxas)
        .args(["-arch=sm_90", "-lineinfo", "-o"])
        .arg(directory.path().join("kernels.cubin"))
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{ptx}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The bytes that a module's constants hold, as text.
fn constants(ptx: &str) -> String {
    let lists = ptx.lines().filter(|line| line.contains(".b8 "));
    let lists = lists.filter_map(|line| line.split_once('{')?.1.split_once('}'));
    let bytes = lists.flat_map(|(list, _)| list.split(',').map(|byte| byte.trim().parse().unwrap_or(0)));
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[test]
fn a_crate_without_kernels_is_refused() {
    let package = package("no-kernels", "pub fn f(_: Index1) {}");
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::NoEntries { package } if package == "no-kernels"),
        "{error}"
    );
}

/// On the host, `PhaseSafe` asks for `Sync`, which an atomic implements. On the device, the auto
/// trait must refuse the atomic.
#[test]
fn a_value_cannot_leave_its_phase_in_an_atomic() {
    let package = package(
        "diverging",
        "use core::sync::atomic::{AtomicU32, Ordering};
         #[kernel(block = 64)]
         fn diverge(mut block: Block, mut out: PerBlock<u32>) {
             let seen = AtomicU32::new(0);
             block.threads(|thread| seen.store(thread.index() as u32, Ordering::Relaxed));
             if seen.load(Ordering::Relaxed) == 3 { block.threads(|_| ()); }
             out.set(&block, 1);
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err().to_string();
    assert!(error.contains("H33") && error.contains("PhaseSafe"), "{error}");
}

/// A type may hide a cell behind a pointer without a type. Rust keeps it from other threads by
/// `*mut T: !Sync`, and a phase needs the same.
#[test]
fn a_value_cannot_leave_its_phase_behind_a_raw_pointer() {
    for (name, capture, bound) in [
        (
            "cell-in-arguments",
            "let _ = core::fmt::write(&mut Says(t.index() == 3), arguments);",
            "PhaseSafe",
        ),
        ("raw-pointer", "let copy = raw; let _ = copy;", "PhaseSafe"),
        ("non-null", "let copy = non_null; let _ = copy;", "PhaseSafe"),
    ] {
        let package = package(
            name,
            &format!(
                "use core::{{cell::Cell, fmt}};
                 struct Leak<'a>(&'a Cell<u32>);
                 impl fmt::Display for Leak<'_> {{
                     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{
                         if f.write_str(\"x\").is_err() {{ self.0.set(1) }}
                         Ok(())
                     }}
                 }}
                 struct Says(bool);
                 impl fmt::Write for Says {{
                     fn write_str(&mut self, _: &str) -> fmt::Result {{ if self.0 {{ Err(fmt::Error) }} else {{ Ok(()) }} }}
                 }}
                 #[kernel(block = 64)]
                 pub fn k(mut block: Block, mut out: PerBlock<u32>) {{
                     #[cfg(target_arch = \"nvptx64\")]
                     {{
                         let cell = Cell::new(0_u32);
                         let leak = Leak(&cell);
                         let arguments = format_args!(\"{{leak}}\");
                         let raw: *const Cell<u32> = &raw const cell;
                         let non_null = core::ptr::NonNull::from(&cell);
                         block.threads(|t| {{ let _ = t; {capture} }});
                     }}
                     out.set(&block, 1);
                 }}"
            ),
        );
        let Some(result) = compile(package.path()) else {
            return;
        };
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BuildError::Compile { diagnostics } if diagnostics.contains("error[E0277]")
                && diagnostics.contains(bound)),
            "{name}: {error}"
        );
    }
}

/// Iterators of slices hold raw pointers, and may be captured.
#[test]
fn an_iterator_of_a_slice_may_be_captured() {
    let package = package(
        "captured-iterator",
        "#[kernel(block = 64)]
         pub fn k(mut block: Block, data: &[u32], mut out: PerThread<u32>) {
             let rest = data.iter();
             block.threads(|t| if let Some(i) = t.index_in_launch() { out.set(i, rest.clone().sum()) });
         }",
    );
    if let Some(module) = compile(package.path()) {
        module.unwrap();
    }
}

#[test]
fn code_that_needs_std_is_an_error_of_the_compiler() {
    let package = package(
        "allocates",
        "#[kernel]
         fn k(i: Index1, mut out: PerThread<u32>) {
             if let Some(out) = out.get_mut(i) { *out = std::vec![1u32].len() as u32; }
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::Compile { diagnostics } if diagnostics.contains("`std`")),
        "{error}"
    );
}

#[test]
fn a_directory_without_a_package_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = Kernels::new(directory.path())
        .compile(directory.path().join("target"))
        .unwrap_err();
    assert!(matches!(error, BuildError::NotAKernelCrate { .. }), "{error}");
}

#[test]
fn a_missing_toolchain_is_named_with_the_command_that_installs_it() {
    let kernels = Kernels::new(workspace().join("device-kernels")).toolchain("nightly-1999-01-01");
    match kernels.compile(Path::new(env!("CARGO_TARGET_TMPDIR")).join("none")) {
        Err(BuildError::NoRustup(_)) => eprintln!("SKIPPED: there is no rustup"),
        Err(error @ BuildError::NoToolchain { .. }) => {
            let text = error.to_string();
            assert!(
                text.contains("rustup toolchain install nightly-1999-01-01 --component rust-src"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Sources in another place, built in another place, give the same text.
#[test]
fn the_text_does_not_depend_on_the_place_of_the_sources() {
    let copy = tempfile::tempdir().unwrap();
    for part in fs::read_dir(workspace())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let name = part.file_name().unwrap().to_str().unwrap();
        if !name.starts_with('.') && name != "target" {
            copy_tree(&part, &copy.path().join(name));
        }
    }
    let Some(here) = compile(&workspace().join("device-kernels")) else {
        return;
    };
    let there = Kernels::new(copy.path().join("device-kernels")).compile(copy.path().join("target"));
    assert!(here.unwrap().ptx == there.unwrap().ptx, "the two texts differ");
}

fn copy_tree(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir(to).unwrap();
    let parts: Vec<PathBuf> = fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for part in parts {
        copy_tree(&part, &to.join(part.file_name().unwrap()));
    }
}
