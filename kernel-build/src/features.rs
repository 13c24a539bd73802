//! Refuses unstable features of rustc in the crates that are compiled for the GPU.
//!
//! A nightly compiler builds the kernels, so each crate could enable any feature of rustc. Some
//! features are holes in the checks of safe code. Counterexample: with `custom_mir`, a safe
//! function is written in MIR. rustc checks neither borrows nor `unsafe` there, and such a function
//! wrote behind its output.
//!
//! rustc itself refuses them, by `-Zallow-features`. No setting of cargo gives this flag to all
//! crates but `core`, which needs its features. So cargo runs a program of ours in place of rustc
//! (`features/wrapper.rs`), which adds the flag. An earlier version of this file read the
//! attributes of each crate. A crate whose first line rustc and this file understood differently
//! hid a feature from it.
//!
//! The same program refuses what is unsafe without the word `unsafe` (`features/expanded.rs`).
//! Counterexample: the macro of a crate of edition 2021 wrote a function with `#[export_name]`, in
//! crates that forbid `unsafe` code. The function passed for the entry of a kernel. Another
//! counterexample: a block `extern "Rust" { }` declared a function of another crate once more, with
//! another result. LLVM has one declaration of each name, trusted this one, and left a check of
//! bounds out.
//!
//! The search reads the text of a crate, and the compilation reads it again. Both read the same
//! files: none has changed in between, by rustc's list of what it read (`features/files.rs`).
//!
//! A cargo profile can add flags of rustc, on nightly, and it can have other settings for one crate
//! than for the others, which no setting on cargo's command line replaces. Counterexample: rustc
//! wrote no LLVM module of a crate that a profile let it compile in many units, and the search for
//! statics took the module of an earlier compilation. Both are refused by cargo's list of all
//! compilations (the *unit graph*).

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BuildError;
use crate::profile;
use crate::toolchain::{TARGET, Toolchain};

/// Features of nightly that each crate for the GPU may enable. None of them changes what rustc
/// checks.
const FEATURES: &str = "abi_ptx,doc_cfg,f128,f16";

/// Features beyond [`FEATURES`], which only these crates may enable. A crate may choose its name,
/// so no list has a feature that changes what rustc checks. `asm_experimental_arch` opens
/// `global_asm!`, which needs no `unsafe` block: a search in the LLVM IR refuses it (`statics.rs`).
/// `core_intrinsics` opens safe functions, such as `wrapping_add`, whose types rustc checks only
/// while it makes code: a search in the expanded text refuses all intrinsics but two, which are
/// right for any type (`features/expanded.rs`). `portable_simd` opens accesses to parts of vectors,
/// which LLVM gets wrong: a search in the LLVM IR refuses them (`inspect.rs`). libm enables the
/// feature only if a crate asks for its `unstable-intrinsics`, and is refused then.
const OF_CRATES: &str = "\
    device_std:asm_experimental_arch,auto_traits,core_float_math,core_intrinsics,gpu_intrinsics,\
    gpu_launch_sized_workgroup_mem,link_llvm_intrinsics,negative_impls,portable_simd,stdarch_nvptx \
    zerocopy:coverage_attribute,test";

const WRAPPER: &str = include_str!("features/wrapper.rs");
const EXPANDED: &str = include_str!("features/expanded.rs");
const FILES: &str = include_str!("features/files.rs");
const DEP_INFO: &str = include_str!("features/dep_info.rs");
const SEARCH: &str = include_str!("features/search.rs");

/// The start of the program's own errors. The program has this text from here.
pub(crate) const REFUSED: &str = "error: refused in a crate for the GPU: ";

/// The start of the program's error about a crate that it cannot prepare for the search
/// (`statics.rs`).
pub(crate) const UNSEARCHED: &str = "error: refused in a crate for the GPU, which cannot be searched: ";

/// The start of the program's error about a file that may have changed.
pub(crate) const CHANGED: &str =
    "error: refused, because a file may have changed while it was compiled for the GPU: ";

/// The extension of a crate's LLVM module for the search (`statics.rs`), behind the name that all
/// outputs of the crate begin with. The program has this text from here.
pub(crate) const SEARCH_EXTENSION: &str = "search.ll";

pub(crate) mod dep_info;
// Only the program has these modules; their tests run here.
#[cfg(test)]
mod expanded;
#[cfg(test)]
mod files;
#[cfg(test)]
mod search;

/// Compiles the program that runs rustc with the lists of features, unless `directory` holds it.
/// Returns its path. The crates in `directory` were compiled by this program.
pub(crate) fn wrapper(toolchain: &Toolchain, directory: &Path) -> Result<PathBuf, BuildError> {
    let library = toolchain.sources();
    let library = library.canonicalize().map_err(BuildError::io(&library))?;
    let lists = [
        ("CUDA_RT_TARGET", TARGET.as_ref()),
        ("CUDA_RT_LIBRARY", library.as_os_str()),
        ("CUDA_RT_FEATURES", FEATURES.as_ref()),
        ("CUDA_RT_FEATURES_OF_CRATES", OF_CRATES.as_ref()),
        ("CUDA_RT_REFUSED", REFUSED.as_ref()),
        ("CUDA_RT_UNSEARCHED", UNSEARCHED.as_ref()),
        ("CUDA_RT_CHANGED", CHANGED.as_ref()),
        ("CUDA_RT_SEARCH_EXTENSION", SEARCH_EXTENSION.as_ref()),
    ];
    let modules = [
        ("expanded", EXPANDED),
        ("dep_info", DEP_INFO),
        ("files", FILES),
        ("search", SEARCH),
    ];
    let modules = modules.map(|(name, text)| format!("mod {name} {{\n{text}}}\n"));
    let text = format!("{WRAPPER}\n{}// {lists:?}\n", modules.concat());
    let source = directory.join("rustc_with_features.rs");
    let program = source.with_extension(EXE_SUFFIX.trim_start_matches('.'));
    if program.exists() && fs::read_to_string(&source).is_ok_and(|known| known == text) {
        return Ok(program);
    }
    // Cargo takes crates for fresh that another program let through.
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(BuildError::io(directory))?;
    }
    fs::create_dir_all(directory).map_err(BuildError::io(directory))?;
    fs::write(&source, text).map_err(BuildError::io(&source))?;
    let mut rustc = toolchain.rustc();
    rustc.envs(lists).args(["--edition=2024", "-Copt-level=1", "-o"]);
    let output = rustc
        .args([&program, &source])
        .output()
        .map_err(BuildError::NoRustup)?;
    if !output.status.success() {
        let diagnostics = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(BuildError::Compile { diagnostics });
    }
    Ok(program)
}

/// Refuses kernels if a profile adds flags to one of their crates, or has another setting for it
/// than this crate gives to all. `graph` is cargo's unit graph, `library` the kernels' own crate,
/// and `lines` says whether the text keeps source lines.
pub(crate) fn refuse_flags(graph: &str, library: &str, lines: bool) -> Result<(), BuildError> {
    let crates = crates(graph, lines)?;
    match ["device_std", library]
        .into_iter()
        .find(|needed| !crates.iter().any(|name| name == needed))
    {
        None => Ok(()),
        Some(needed) => Err(unknown(&format!("no crate `{needed}`"))),
    }
}

fn unknown(what: &str) -> BuildError {
    BuildError::FlagsUnknown {
        what: what.to_owned(),
    }
}

/// The crates for the GPU in cargo's unit graph.
///
/// # Errors
/// The graph is not understood, or a profile adds flags of rustc to a crate or changes a setting.
fn crates(graph: &str, lines: bool) -> Result<Vec<String>, BuildError> {
    let graph: Value = serde_json::from_str(graph).map_err(|error| unknown(&error.to_string()))?;
    if graph["version"] != 1 {
        return Err(unknown("another version"));
    }
    let roots = graph["roots"].as_array().ok_or_else(|| unknown("no roots"))?;
    let mut crates = Vec::new();
    let units = graph["units"].as_array().ok_or_else(|| unknown("no units"))?;
    for (at, unit) in units.iter().enumerate() {
        let name = unit["target"]["name"]
            .as_str()
            .ok_or_else(|| unknown("no name"))?;
        let name = name.replace('-', "_");
        // A unit of the host has no platform. The run of a build script compiles nothing.
        if unit["platform"].is_null() || unit["mode"] == "run-custom-build" {
            continue;
        }
        if unit["platform"] != TARGET {
            return Err(unknown(&format!("another target of `{name}`")));
        }
        // Cargo leaves an empty list out.
        let flags = &unit["profile"]["rustflags"];
        if !(flags.is_null() || flags.as_array().is_some_and(Vec::is_empty)) {
            return Err(BuildError::ProfileFlags {
                krate: name,
                flags: flags.to_string(),
            });
        }
        let settings = unit["profile"].as_object();
        let settings = settings.ok_or_else(|| unknown(&format!("no profile of `{name}`")))?;
        if let Some((key, value)) = profile::changed(settings, lines) {
            return Err(BuildError::ProfileSetting {
                krate: name,
                key,
                value,
            });
        }
        let is_root = roots.iter().any(|root| *root == at);
        refuse_kinds(&name, &unit["target"]["crate_types"], is_root)?;
        crates.push(name);
    }
    Ok(crates)
}

/// Refuses a crate that cargo compiles as a dynamic or static library beside the Rust library: its
/// files have no hash in their names. Two such crates of one name overwrite each other's files, and
/// cargo takes the one for the other. The kernels' own crate, the root of the graph, is a `cdylib`
/// alone; no other is one.
fn refuse_kinds(krate: &str, kinds: &Value, is_root: bool) -> Result<(), BuildError> {
    let kinds = kinds
        .as_array()
        .ok_or_else(|| unknown(&format!("no kinds of `{krate}`")))?;
    let is_library = |kind: &Value| kind == "lib" || kind == "rlib";
    let is_own = is_root && kinds.iter().all(|kind| kind == "cdylib");
    if !kinds.is_empty() && (kinds.iter().all(is_library) || is_own) {
        return Ok(());
    }
    Err(BuildError::LibraryKinds {
        krate: krate.to_owned(),
        kinds: Value::from(kinds.clone()).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = r#"{"version":1,"roots":[3],"units":[
        {"target":{"name":"syn"},"profile":{},"platform":null,"mode":"build"},
        {"target":{"name":"core","crate_types":["lib"]},"profile":{"panic":"abort"},"platform":"nvptx64-nvidia-cuda","mode":"build","is_std":true},
        {"target":{"name":"build-script-build"},"profile":{},"platform":"nvptx64-nvidia-cuda","mode":"run-custom-build"},
        {"target":{"name":"a-b","crate_types":["cdylib"]},"profile":{"rustflags":[],"panic":"abort"},"platform":"nvptx64-nvidia-cuda","mode":"build"}]}"#;

    /// The profile of a crate, as cargo prints it, but for the key `panic`.
    const SETTINGS: &str = r#""name":"cuda-rt-kernels","opt_level":"3","lto":"true","codegen_backend":null,"codegen_units":1,"debuginfo":0,"split_debuginfo":null,"debug_assertions":false,"overflow_checks":false,"rpath":false,"incremental":false,"strip":{"resolved":{"Named":"debuginfo"}},"trim_paths":null,"panic":"abort""#;

    fn graph() -> String {
        SHORT.replace("\"panic\":\"abort\"", SETTINGS)
    }

    #[test]
    fn crates_are_those_that_are_compiled_for_the_gpu() {
        assert_eq!(crates(&graph(), false).unwrap(), ["core", "a_b"]);
        let lines = graph()
            .replace("\"debuginfo\":0", "\"debuginfo\":\"line-directives-only\"")
            .replace("{\"Named\":\"debuginfo\"}", "\"None\"")
            .replace(
                "\"trim_paths\":null",
                "\"trim_paths\":[\"macro\",\"diagnostics\"]",
            );
        assert_eq!(crates(&lines, true).unwrap(), ["core", "a_b"]);
        crates(&lines, false).unwrap_err();
    }

    /// Each key of each crate, and keys that are not known.
    #[test]
    fn another_setting_of_a_profile_is_refused() {
        for (from, to, key) in [
            ("\"opt_level\":\"3\"", "\"opt_level\":\"2\"", "opt-level"),
            ("\"lto\":\"true\"", "\"lto\":\"false\"", "lto"),
            (
                "\"codegen_backend\":null",
                "\"codegen_backend\":\"cranelift\"",
                "codegen-backend",
            ),
            ("\"codegen_units\":1", "\"codegen_units\":16", "codegen-units"),
            ("\"codegen_units\":1", "\"codegen_units\":null", "codegen-units"),
            ("\"codegen_units\":1,", "", "codegen-units"),
            ("\"debuginfo\":0", "\"debuginfo\":2", "debug"),
            (
                "\"split_debuginfo\":null",
                "\"split_debuginfo\":1",
                "split-debuginfo",
            ),
            (
                "\"debug_assertions\":false",
                "\"debug_assertions\":true",
                "debug-assertions",
            ),
            (
                "\"overflow_checks\":false",
                "\"overflow_checks\":true",
                "overflow-checks",
            ),
            ("\"rpath\":false", "\"rpath\":true", "rpath"),
            ("\"incremental\":false", "\"incremental\":true", "incremental"),
            ("{\"Named\":\"debuginfo\"}", "{\"Named\":\"symbols\"}", "strip"),
            ("\"trim_paths\":null", "\"trim_paths\":[]", "trim-paths"),
            ("\"panic\":\"abort\"", "\"panic\":\"unwind\"", "panic"),
            ("\"rpath\":false", "\"rpath\":false,\"new_key\":1", "new-key"),
        ] {
            let graph = graph();
            // Of the one crate, and of the other.
            for at in [graph.find(from).unwrap(), graph.rfind(from).unwrap()] {
                let (before, after) = graph.split_at(at);
                let error = crates(&format!("{before}{}", after.replacen(from, to, 1)), false).unwrap_err();
                let is_named = matches!(&error, BuildError::ProfileSetting { krate, key: named, .. }
                    if named == key && *krate == if before.contains("a-b") { "a_b" } else { "core" });
                assert!(is_named, "{to}: {error}");
            }
        }
        for unset in ["null", "false", "[]"] {
            let more = graph().replace("\"rpath\"", &format!("\"new_key\":{unset},\"rpath\""));
            crates(&more, false).unwrap();
        }
    }

    /// What an earlier program let through is compiled again, and nothing else is.
    #[test]
    fn crates_that_another_program_let_through_are_removed() {
        let toolchain = match Toolchain::find("nightly") {
            Ok(toolchain) => toolchain,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("built");
        let artefact = directory.join("sm_80/libmangles.rmeta");
        fs::create_dir_all(artefact.parent().unwrap()).unwrap();
        fs::write(directory.join("rustc_with_features.rs"), WRAPPER).unwrap();
        fs::write(&artefact, "").unwrap();
        wrapper(&toolchain, &directory).unwrap();
        assert!(!artefact.exists());
        fs::create_dir_all(artefact.parent().unwrap()).unwrap();
        fs::write(&artefact, "").unwrap();
        wrapper(&toolchain, &directory).unwrap();
        assert!(artefact.exists());
    }

    #[test]
    fn flags_of_a_profile_and_graphs_not_understood_are_refused() {
        for (from, to) in [
            (
                "\"rustflags\":[]",
                "\"rustflags\":[\"-Zcrate-attr=feature(custom_mir)\"]",
            ),
            (
                "\"rustflags\":[]",
                "\"rustflags\":\"-Zcrate-attr=feature(custom_mir)\"",
            ),
        ] {
            let error = crates(&graph().replace(from, to), false).unwrap_err();
            assert!(matches!(error, BuildError::ProfileFlags { .. }), "{error}");
        }
        for kinds in [
            "[\"lib\",\"dylib\"]",
            "[\"cdylib\",\"rlib\"]",
            "[\"staticlib\"]",
            "[]",
        ] {
            let error = crates(&graph().replace("[\"cdylib\"]", kinds), false).unwrap_err();
            assert!(matches!(error, BuildError::LibraryKinds { .. }), "{error}");
        }
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"platform\":\"nvptx64", "\"platform\":\"amdgcn"),
            ("units", "others"),
            ("\"name\":\"a-b\"", "\"title\":\"a\""),
            ("\"crate_types\":[\"cdylib\"]", "\"kind\":[\"cdylib\"]"),
        ] {
            let error = crates(&graph().replace(from, to), false).unwrap_err();
            assert!(matches!(error, BuildError::FlagsUnknown { .. }), "{error}");
        }
    }

    /// Its files would have the names of those of the kernels' own crate.
    #[test]
    fn a_dependency_that_is_a_cdylib_is_refused() {
        let error = crates(&graph().replace("[3]", "[1]"), false).unwrap_err();
        assert!(
            matches!(&error, BuildError::LibraryKinds { krate, .. } if krate == "a_b"),
            "{error}"
        );
    }
}
