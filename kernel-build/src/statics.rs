//! Searches every crate of the kernels, before any optimisation, for mutable statics, for assembly
//! outside functions, and for symbols that two crates define (`symbols.rs`).
//!
//! Through a static, block-level code could see what other threads did. LLVM may also turn a static
//! into a register; then each thread has its own value, but the source has one value for all
//! threads. After that, the optimised module no longer shows the static.
//!
//! Therefore the crates are compiled again without optimisation, by a command that looks the same
//! to the sources (`compilation.rs`), and rustc writes the LLVM module of each crate. There, a
//! static is `global` if it is `static mut` or has interior mutability, and `constant` otherwise. A
//! crate's module holds all statics of the crate, used or not. This includes statics in functions,
//! generic or not, and statics from macros of other crates.
//!
//! A build script, a procedural macro and an included file that changes between the two
//! compilations can still tell them apart.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compilation::{Compilation, Purpose};
use crate::error::BuildError;
use crate::symbols::Symbols;

/// Crates of all kernels, beside their own.
const ALWAYS: [&str; 2] = ["core", "device_std"];

/// A crate for the GPU.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    name: String,
    /// The file of its LLVM module.
    module: PathBuf,
    /// The file of its `Cargo.toml`.
    manifest: PathBuf,
}

/// Refuses kernels in whose crates there is a mutable static, or assembly outside functions, or a
/// symbol that another crate defines as well. `library` is the kernels' own crate.
pub(crate) fn refuse(compilation: &Compilation<'_>, library: &str) -> Result<(), BuildError> {
    let messages = compilation.run(Purpose::Statics)?;
    let crates = crates(&messages, &compilation.directory(), &compilation.host_directory())?;
    for needed in ALWAYS.into_iter().chain([library]) {
        if !crates.iter().any(|krate| krate.name == needed) {
            let what = format!("the crate `{needed}`");
            return Err(BuildError::Unsearched { what });
        }
    }
    let sources = compilation.toolchain.sources();
    let sources = sources.canonicalize().map_err(BuildError::io(&sources))?;
    let (mut names, mut assembly, mut symbols) = (Vec::new(), Vec::new(), Symbols::default());
    for Crate {
        name,
        module,
        manifest,
    } in crates
    {
        let text = fs::read_to_string(&module).map_err(BuildError::io(&module))?;
        names.extend(mutable_statics(&text));
        if has_assembly(&text) {
            assembly.push(format!("`{name}`"));
        }
        let manifest = manifest.canonicalize();
        let is_rustcs = manifest.is_ok_and(|manifest| manifest.starts_with(&sources));
        symbols.add(&name, &text, is_rustcs)?;
    }
    if !assembly.is_empty() {
        return Err(BuildError::Assembly { crates: assembly });
    }
    // A static of one crate may also appear in the modules of crates that use it.
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    Err(BuildError::MutableStatic { names })
}

/// The crates that cargo compiled for the GPU, now or earlier, and their LLVM modules.
///
/// # Errors
/// An artifact that belongs neither to the GPU nor to the host: its crate would not be searched.
fn crates(messages: &str, gpu: &Path, host: &Path) -> Result<Vec<Crate>, BuildError> {
    let mut crates: Vec<Crate> = Vec::new();
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for message in messages.filter(|message| message["reason"] == "compiler-artifact") {
        let name = message["target"]["name"].as_str().unwrap_or("").replace('-', "_");
        let files = message["filenames"].as_array().into_iter().flatten();
        let files: Vec<&Path> = files.filter_map(Value::as_str).map(Path::new).collect();
        if !files.is_empty() && files.iter().all(|file| file.starts_with(host)) {
            continue;
        }
        let is_metadata = |file: &&&Path| file.extension().is_some_and(|extension| extension == "rmeta");
        let metadata = files
            .iter()
            .find(is_metadata)
            .filter(|file| file.starts_with(gpu));
        let Some(metadata) = metadata else {
            let what = format!("the crate `{name}`, which lies elsewhere: {files:?}");
            return Err(BuildError::Unsearched { what });
        };
        let stem = metadata.file_stem().unwrap_or_default().to_string_lossy();
        let stem = stem.strip_prefix("lib").unwrap_or(&stem);
        let module = metadata.with_file_name(format!("{stem}.ll"));
        // A message may come twice, but a crate has one file.
        if crates.iter().all(|known| known.module != module) {
            let manifest = PathBuf::from(message["manifest_path"].as_str().unwrap_or(""));
            crates.push(Crate {
                name,
                module,
                manifest,
            });
        }
    }
    Ok(crates)
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

/// Whether an LLVM module has assembly outside functions. In LLVM's text, no other line begins with
/// these words: strings of users stand in one line with the name of their constant.
pub(crate) fn has_assembly(llvm_ir: &str) -> bool {
    llvm_ir.lines().any(|line| line.starts_with("module asm"))
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
    fn assembly_outside_functions_is_found() {
        assert!(has_assembly(
            "target = \"x\"\nmodule asm \".visible .entry k()\"\n"
        ));
        let ir = "@text = constant [12 x i8] c\"module asm \\0A\"\n  call void asm sideeffect \"bar.sync 0;\", \"\"()\n";
        assert!(!has_assembly(ir));
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
        let (gpu, host) = (Path::new("/t/nvptx64-nvidia-cuda/p"), Path::new("/t/p"));
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"libm"},"manifest_path":"/libm/Cargo.toml","filenames":["/t/nvptx64-nvidia-cuda/p/deps/liblibm-1a.rmeta"]}
not a message
{"reason":"compiler-artifact","target":{"name":"syn"},"filenames":["/t/p/deps/libsyn-2b.rmeta"]}
{"reason":"build-finished","success":true}"#;
        let libm = Crate {
            name: "libm".to_owned(),
            module: PathBuf::from("/t/nvptx64-nvidia-cuda/p/deps/libm-1a.ll"),
            manifest: PathBuf::from("/libm/Cargo.toml"),
        };
        assert_eq!(crates(messages, gpu, host).unwrap(), [libm]);
        // A crate that lies elsewhere, or shows no metadata, is never left out quietly.
        for (gpu, host) in [
            ("t/nvptx64-nvidia-cuda/p", "/t/p"),
            ("/t/nvptx64-nvidia-cuda/p", "t/p"),
        ] {
            let error = crates(messages, Path::new(gpu), Path::new(host)).unwrap_err();
            assert!(matches!(error, BuildError::Unsearched { .. }), "{error}");
        }
        let without = messages.replace("1a.rmeta", "1a.rlib");
        crates(&without, gpu, host).unwrap_err();
    }
}
