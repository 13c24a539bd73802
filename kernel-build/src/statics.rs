//! Finds mutable statics in every crate of the kernels, before any optimisation.
//!
//! Through a static, block-level code could see what other threads did. LLVM may also turn a static
//! into a register; then each thread has its own value, but the source has one value for all
//! threads. After that, the optimised module no longer shows the static.
//!
//! Therefore the crates are compiled again without optimisation, and rustc writes the LLVM module
//! of each crate. There, a static is `global` if it is `static mut` or has interior mutability, and
//! `constant` otherwise. A crate's module holds all statics of the crate, used or not. This
//! includes statics in functions, generic or not, and statics from macros of other crates.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BuildError;
use crate::profile::PROFILE_SETTINGS;
use crate::toolchain::{TARGET, Toolchain};

/// Flags for the output, and against optimisation.
const FLAGS: [&str; 4] = [
    "--emit=llvm-ir",
    "-Cno-prepopulate-passes",
    "-Zmir-opt-level=0",
    "-Csymbol-mangling-version=v0",
];
/// The profile of this build. Its outputs have another directory than the kernels' profile.
const PROFILE: &str = "cuda-rt-statics";

/// Refuses kernels in whose crates there is a mutable static.
pub(crate) fn refuse(
    toolchain: &Toolchain,
    architecture: &str,
    manifest: &Path,
    target_dir: &Path,
) -> Result<(), BuildError> {
    let mut cargo = toolchain.cargo();
    cargo.args(["check", "--lib", "--target", TARGET, "--profile", PROFILE]);
    cargo.args([
        "-Zbuild-std=core",
        "--message-format=json-render-diagnostics",
        "--color=never",
    ]);
    cargo.arg("--manifest-path").arg(manifest);
    cargo.arg("--target-dir").arg(target_dir);
    // The build needs neither debug information nor link-time optimisation.
    let settings = PROFILE_SETTINGS
        .iter()
        .filter(|setting| !setting.starts_with("lto"));
    for setting in settings.chain(&["lto=false", "debug=false"]) {
        cargo.arg("--config").arg(format!("profile.{PROFILE}.{setting}"));
    }
    let cpu = format!("-Ctarget-cpu={architecture}");
    let flags: Vec<&str> = FLAGS.into_iter().chain([cpu.as_str()]).collect();
    cargo
        .arg("--config")
        .arg(format!("target.{TARGET}.rustflags={flags:?}"));
    let output = cargo.output().map_err(BuildError::NoRustup)?;
    if !output.status.success() {
        let diagnostics = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(BuildError::Compile { diagnostics });
    }
    let mut names = Vec::new();
    for path in modules(&String::from_utf8_lossy(&output.stdout), target_dir) {
        let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
        names.extend(mutable_statics(&text));
    }
    // A static of one crate may also appear in the modules of crates that use it.
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    Err(BuildError::MutableStatic { names })
}

/// The LLVM modules of the crates that cargo checked for the GPU, now or earlier.
fn modules(messages: &str, target_dir: &Path) -> Vec<PathBuf> {
    // This directory holds no crates of the host, which are macros and build scripts.
    let directory = target_dir.join(TARGET);
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| {
            let files = message["filenames"].as_array()?;
            let metadata = files.iter().filter_map(Value::as_str).map(Path::new);
            metadata
                .filter(|file| file.starts_with(&directory))
                .find(|file| file.extension().is_some_and(|extension| extension == "rmeta"))
                .map(Path::to_owned)
        })
        .map(|file| {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let name = stem.strip_prefix("lib").unwrap_or(&stem);
            file.with_file_name(format!("{name}.ll"))
        })
        .collect()
}

/// The names of the globals in an LLVM module that are neither `constant` nor shared memory.
pub(crate) fn mutable_statics(llvm_ir: &str) -> Vec<String> {
    llvm_ir
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split_once(" = "))
        .filter(|(_, definition)| is_mutable(definition))
        .map(|(name, _)| format!("`{}`", readable(name.trim_matches('"'))))
        .collect()
}

/// Reads only the words before the initialiser: the initialiser holds the user's bytes, which may
/// spell any word.
fn is_mutable(definition: &str) -> bool {
    for word in definition.split_whitespace() {
        match word {
            "global" => return true,
            "constant" | "addrspace(3)" => return false,
            _ => {}
        }
    }
    false
}

/// The path in a symbol: `kernels::COUNT` for `_RNvCs1234_7kernels5COUNT`. In a symbol, each
/// identifier follows its length.
fn readable(symbol: &str) -> String {
    let Some(mut rest) = symbol.strip_prefix("_R") else {
        return symbol.to_owned();
    };
    let mut parts: Vec<&str> = Vec::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        // The hash of a crate ends in an underscore, and may contain digits.
        if let Some((_, after)) = rest[..start]
            .ends_with("Cs")
            .then(|| rest.split_once('_'))
            .flatten()
            .or_else(|| {
                let hash = rest.find("Cs").filter(|at| *at < start)?;
                rest[hash..].split_once('_')
            })
        {
            rest = after;
            continue;
        }
        rest = &rest[start..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (length, after) = rest.split_at(digits);
        let after = after.strip_prefix('_').unwrap_or(after);
        let Some(part) = length.parse().ok().and_then(|length| after.get(..length)) else {
            break;
        };
        parts.push(part);
        rest = &after[part.len()..];
    }
    if parts.is_empty() {
        symbol.to_owned()
    } else {
        parts.join("::")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutable_statics_are_neither_constants_nor_shared_memory() {
        for definition in [
            "internal unnamed_addr global i32 0, align 4",
            "local_unnamed_addr global [4 x i8] zeroinitializer",
            "internal thread_local global [4 x i8] zeroinitializer",
            // The static's initialiser contains the word for shared memory.
            "internal global <{ [4 x i8], [12 x i8] }> <{ [4 x i8] zeroinitializer, [12 x i8] c\"addrspace(3)\" }>",
        ] {
            assert_eq!(
                mutable_statics(&format!("@COUNT = {definition}")),
                ["`COUNT`"],
                "{definition}"
            );
        }
        let ir = "@__cuda_rt_layout_a__1 = constant [8 x i8] c\"global\", align 8\n@shared = external addrspace(3) global [0 x i8]";
        assert_eq!(mutable_statics(ir), [""; 0]);
    }

    #[test]
    fn symbols_are_shown_as_paths() {
        for (symbol, path) in [
            ("_RNvCs9ZbK7593Xi6_8k_static1A", "k_static::A"),
            ("_RNvNvCsabcdefghij1_7kernels4scan5COUNT", "kernels::scan::COUNT"),
            ("alloc_0123", "alloc_0123"),
            ("_R", "_R"),
        ] {
            assert_eq!(readable(symbol), path);
        }
    }

    #[test]
    fn modules_lie_beside_the_metadata_of_crates_for_the_gpu() {
        let messages = r#"{"reason":"compiler-artifact","filenames":["/t/nvptx64-nvidia-cuda/p/deps/liblibm-1a.rmeta"]}
not a message
{"reason":"compiler-artifact","filenames":["/t/p/deps/libsyn-2b.rmeta"]}
{"reason":"build-finished","success":true}"#;
        let expected = Path::new("/t/nvptx64-nvidia-cuda/p/deps/libm-1a.ll");
        assert_eq!(modules(messages, Path::new("/t")), [expected]);
    }
}
