//! The files and the flags that a build uses: the submodules of a module, files that a committed
//! text does not cover, and flags of cargo's configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel_build::Kernels;

use crate::{BUILD, compile, compile_with, package};

/// The directory of the build in another process.
const PACKAGE: &str = "CUDA_RT_TEST_PACKAGE";
/// Whether the other process builds as a build script does.
const AS_A_SCRIPT: &str = "CUDA_RT_TEST_AS_A_SCRIPT";

const KERNEL: &str = "#[kernel]
     pub fn fill(i: Index1, mut data: PerThread<u32>) { if let Some(value) = data.get_mut(i) { *value = VALUE; } }";

/// Runs `builds_in_another_process` in the directory of a package. Returns what it printed, or
/// `None` without a nightly compiler.
fn build_in(package: &Path, variables: &[(&str, &str)]) -> Option<String> {
    let _build = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "sources::builds_in_another_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .current_dir(package)
        .env(PACKAGE, package)
        .env("OUT_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("script"))
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("BUILT") || text.contains("REFUSED"), "{text}");
    if text.contains("NoRustup") || text.contains("NoToolchain") || text.contains("NoRustSrc") {
        eprintln!("SKIPPED: no nightly compiler");
        return None;
    }
    Some(text)
}

#[test]
#[ignore = "`build_in` runs it in a process of its own, in the directory of a package"]
fn builds_in_another_process() {
    let Some(package) = std::env::var_os(PACKAGE) else {
        return;
    };
    let kernels = Kernels::new(&package);
    let result = if std::env::var_os(AS_A_SCRIPT).is_some() {
        fs::create_dir_all(std::env::var_os("OUT_DIR").unwrap()).unwrap();
        let committed = Path::new(&package).join("kernels.ptx");
        kernels.committed(committed).build().map(drop)
    } else {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        kernels.compile(target).map(drop)
    };
    match result {
        Ok(()) => println!("BUILT"),
        Err(error) => println!("REFUSED {error:?} {error}"),
    }
}

/// A flag of the user's configuration could keep a mutable static from the search, for example
/// `-Cpasses=globalopt`.
#[test]
fn flags_of_the_configuration_reach_neither_compilation() {
    let kernel = format!(
        "#[cfg(seen)] compile_error!(\"a flag of the configuration\");
         // Both compilations show the sources the same variable.
         const _: () = assert!(match option_env!(\"CARGO_ENCODED_RUSTFLAGS\") {{ Some(v) => v.is_empty(), None => false }});
         const VALUE: u32 = 1;
         {KERNEL}"
    );
    let package = package("flags", &kernel);
    fs::create_dir(package.path().join(".cargo")).unwrap();
    for (table, variable) in [
        ("build", "RUSTFLAGS"),
        ("target.nvptx64-nvidia-cuda", "CARGO_ENCODED_RUSTFLAGS"),
        (
            "target.'cfg(all())'",
            "CARGO_TARGET_NVPTX64_NVIDIA_CUDA_RUSTFLAGS",
        ),
        ("host", "CARGO_BUILD_RUSTFLAGS"),
    ] {
        let configuration = format!("[{table}]\nrustflags = [\"--cfg=seen\"]\n");
        fs::write(package.path().join(".cargo/config.toml"), configuration).unwrap();
        let Some(text) = build_in(package.path(), &[(variable, "--cfg=seen")]) else {
            return;
        };
        assert!(text.contains("BUILT"), "{table}: {text}");
    }
}

/// The hash of a committed text covers `Cargo.toml` and `src`. Another file could change without a
/// change of the hash.
#[test]
fn a_committed_text_with_a_file_outside_its_sources_is_refused() {
    let values = [
        ("src/value.rs", "mod value;\nuse value::VALUE;\n", true),
        (
            "value.rs",
            "#[path = \"../value.rs\"]\nmod value;\nuse value::VALUE;\n",
            false,
        ),
    ];
    for (file, module, is_covered) in values {
        let package = package("covered", &format!("{module}{KERNEL}"));
        fs::write(package.path().join(file), "pub const VALUE: u32 = 1;\n").unwrap();
        let Some(text) = build_in(package.path(), &[(AS_A_SCRIPT, "1"), ("CUDA_RT_UPDATE_PTX", "1")]) else {
            return;
        };
        let watched = package.path().canonicalize().unwrap().join(file);
        let watched = format!("cargo::rerun-if-changed={}", watched.display());
        if is_covered {
            assert!(text.contains("BUILT") && text.contains(&watched), "{text}");
            assert!(package.path().join("kernels.ptx").exists());
        } else {
            assert!(
                text.contains("UncoveredSource") && text.contains("value.rs"),
                "{text}"
            );
            assert!(!package.path().join("kernels.ptx").exists());
        }
    }
}

/// The host finds the submodules of `src/kernels.rs` in `src/kernels`. The build for the GPU looked
/// for them in `src`.
#[test]
fn a_module_has_the_submodules_that_the_host_finds() {
    let package = package("submodules", "mod kernels;");
    let src = package.path().join("src");
    let module = format!(
        "use device_std::prelude::*;\nmod step;\nuse step::VALUE;\nuse crate::kernels::step::deep::SAME;\n\
                          const _: () = assert!(SAME == VALUE);\n{KERNEL}"
    );
    let step = "pub mod deep;\npub use deep::SAME as VALUE;\n";
    let decoy = "compile_error!(\"the host does not compile this file\");\n";
    fs::create_dir_all(src.join("kernels/step")).unwrap();
    fs::create_dir_all(src.join("step")).unwrap();
    for (file, text) in [
        ("kernels.rs", module.as_str()),
        ("kernels/step.rs", step),
        ("kernels/step/deep.rs", "pub const SAME: u32 = 77;\n"),
        ("step.rs", decoy),
        ("step/deep.rs", decoy),
        ("kernels/deep.rs", decoy),
    ] {
        fs::write(src.join(file), text).unwrap();
    }
    let Some(built) = compile_with(&Kernels::module(src.join("kernels.rs"))) else {
        return;
    };
    let ptx = built.unwrap().ptx;
    assert!(ptx.contains(", 77;"), "{ptx}");
}

/// LLVM calls a table of results after the function that reads it. The function's symbol has the
/// hash of its crate, which depends on paths.
#[test]
fn the_name_of_a_table_does_not_depend_on_the_place_of_the_sources() {
    let source = "
        #[inline(never)]
        fn pick(x: u32) -> u32 {
            match x { 0 => 17, 1 => 4, 2 => 99, 3 => 5, 4 => 77, 5 => 1000, 6 => 3, _ => 0 }
        }
        #[kernel]
        pub fn k(i: Index1, input: &[u32], mut out: PerThread<u32>) {
            if let Some(out) = out.get_mut(i) { *out = pick(input[i.get()]); }
        }";
    let mut texts = Vec::new();
    for _ in 0..2 {
        let package = package("a-table-of-a-function", source);
        let Some(module) = compile(package.path()) else {
            return;
        };
        texts.push(module.unwrap().ptx);
    }
    assert!(texts[0].contains("switch_$_table_$__R"), "{}", texts[0]);
    assert!(texts[0] == texts[1], "{}\n{}", texts[0], texts[1]);
}
