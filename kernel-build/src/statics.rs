//! Searches every crate of the kernels, before any optimisation, for mutable statics, for assembly
//! outside functions, and for symbols that two crates define (`symbols.rs`).
//!
//! Through a static, block-level code could see what other threads did. LLVM may also turn a static
//! into a register; then each thread has its own value, but the source has one value for all
//! threads. After that, the optimised module no longer shows the static.
//!
//! Therefore each crate is also compiled without optimisation, by a command that looks the same to
//! the source (`features/search.rs`), and rustc writes the LLVM module of the crate. There, a
//! static is `global` if it is `static mut` or has interior mutability, and `constant` otherwise. A
//! crate's module holds all statics of the crate, used or not. This includes statics in functions,
//! generic or not, and statics from macros of other crates.
//!
//! Cargo takes the module and the compiled crate for one output. So the module of a crate that
//! cargo did not compile again is the module of that crate. If it is missing, the kernels are
//! refused.
//!
//! A procedural macro can still tell the two compilations apart.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::compilation::Compilation;
use crate::error::BuildError;
use crate::features::SEARCH_EXTENSION;
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
/// symbol that another crate defines as well. `messages` are cargo's, and `library` is the name and
/// the LLVM module of the kernels' own crate.
pub(crate) fn refuse(
    compilation: &Compilation<'_>,
    messages: &str,
    library: (&str, PathBuf),
) -> Result<(), BuildError> {
    let directories = (compilation.directory(), compilation.host_directory());
    let mut crates = crates(messages, (&directories.0, &directories.1), library.0)?;
    crates.push(Crate {
        name: library.0.to_owned(),
        module: library.1,
        manifest: compilation.manifest.to_owned(),
    });
    for needed in ALWAYS {
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
        let text = read(&name, &module, compilation.target_dir)?;
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

/// The text of a crate's LLVM module.
///
/// # Errors
/// The file cannot be read. If it is missing, the error says how it is made again.
fn read(krate: &str, module: &Path, target_dir: &Path) -> Result<String, BuildError> {
    fs::read_to_string(module).map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return BuildError::io(module)(error);
        }
        let what = format!(
            "the crate `{krate}`, because {} is missing (remove {}, and build again)",
            module.display(),
            target_dir.display()
        );
        BuildError::Unsearched { what }
    })
}

/// The crates that cargo compiled for the GPU, now or earlier, and their LLVM modules, without
/// `library`, the kernels' own crate. `gpu` and `host` are directories of outputs.
///
/// # Errors
/// An artifact that belongs neither to the GPU nor to the host: its crate would not be searched.
fn crates(messages: &str, (gpu, host): (&Path, &Path), library: &str) -> Result<Vec<Crate>, BuildError> {
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
        // It is the only `cdylib` for the GPU (`features.rs`). Cargo names no file of it, because
        // rustc links nothing.
        if files.is_empty() && name == library && message["target"]["crate_types"] == json!(["cdylib"]) {
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
        let module = metadata.with_file_name(format!("{stem}.{}", SEARCH_EXTENSION));
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
pub(crate) fn readable(symbol: &str) -> String {
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
    fn a_crate_without_its_module_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(
            "slot",
            &directory.path().join("slot-1.search.ll"),
            directory.path(),
        )
        .unwrap_err();
        assert!(
            matches!(&error, BuildError::Unsearched { what } if what.contains("`slot`") && what.contains("build again")),
            "{error}"
        );
        let error = read("slot", directory.path(), directory.path()).unwrap_err();
        assert!(matches!(error, BuildError::Io { .. }), "{error}");
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
            module: PathBuf::from("/t/nvptx64-nvidia-cuda/p/deps/libm-1a.search.ll"),
            manifest: PathBuf::from("/libm/Cargo.toml"),
        };
        let directories = (gpu, host);
        assert_eq!(crates(messages, directories, "k").unwrap(), [libm]);
        let own =
            r#"{"reason":"compiler-artifact","target":{"name":"k","crate_types":["cdylib"]},"filenames":[]}"#;
        assert_eq!(crates(own, directories, "k").unwrap(), []);
        crates(own, directories, "another").unwrap_err();
        crates(&own.replace("cdylib", "lib"), directories, "k").unwrap_err();
        // A crate that lies elsewhere, or shows no metadata, is never left out quietly.
        for (gpu, host) in [
            ("t/nvptx64-nvidia-cuda/p", "/t/p"),
            ("/t/nvptx64-nvidia-cuda/p", "t/p"),
        ] {
            let error = crates(messages, (Path::new(gpu), Path::new(host)), "k").unwrap_err();
            assert!(matches!(error, BuildError::Unsearched { .. }), "{error}");
        }
        let without = messages.replace("1a.rmeta", "1a.rlib");
        crates(&without, directories, "k").unwrap_err();
    }
}
