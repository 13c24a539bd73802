//! Refuses unstable features of rustc in the crates that are compiled for the GPU.
//!
//! A nightly compiler builds the kernels, so each crate could enable any feature of rustc. Some
//! features are holes in the checks of safe code. Counterexample: with `custom_mir`, a safe
//! function is written in MIR. rustc checks neither borrows nor `unsafe` there, and such a function
//! wrote behind its output.
//!
//! rustc itself refuses the features of the kernels' own crate, by `-Zallow-features`
//! (`compilation.rs`). This flag cannot reach the other crates: `core` would get it too, and `core`
//! needs its features. So this file reads the list of all compilations from cargo (the *unit
//! graph*), and the attributes in the root of each crate (`features/attributes.rs`). A crate's
//! features can stand only there, or in flags of rustc. A cargo profile can add flags, on nightly;
//! the unit graph shows them, and they are refused.
//!
//! The attributes of all configurations count: a build script could switch any of them on.

mod attributes;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compilation::{Compilation, FEATURES};
use crate::error::BuildError;
use crate::toolchain::TARGET;

/// Features beyond [`FEATURES`], which only these crates may name. A crate may choose its name, so
/// no list has a feature that changes what rustc checks.
const OF_CRATE: [(&str, &[&str]); 5] = [
    (
        "device_std",
        &[
            "asm_experimental_arch",
            "auto_traits",
            "core_float_math",
            "core_intrinsics",
            "gpu_intrinsics",
            "gpu_launch_sized_workgroup_mem",
            "link_llvm_intrinsics",
            "negative_impls",
            "portable_simd",
            "stdarch_nvptx",
        ],
    ),
    ("bytemuck", &["portable_simd"]),
    (
        "half",
        &[
            "loongarch_target_feature",
            "stdarch_loongarch",
            "stdarch_loongarch_feature_detection",
        ],
    ),
    ("libm", &["core_intrinsics", "wasm_numeric_instr"]),
    ("zerocopy", &["coverage_attribute", "stdarch_powerpc", "test"]),
];

/// Refuses kernels if one of their crates enables a feature that is not on the lists, or has flags
/// of its own. `library` is the kernels' own crate.
pub(crate) fn refuse(compilation: &Compilation<'_>, library: &str) -> Result<(), BuildError> {
    let roots = roots(&compilation.units()?)?;
    for needed in ["device_std", library] {
        if !roots.iter().any(|(name, _)| name == needed) {
            let what = format!("the crate `{needed}`");
            return Err(BuildError::FeaturesUnknown { what });
        }
    }
    for (name, root) in roots {
        let text = fs::read_to_string(&root).map_err(BuildError::io(&root))?;
        check(&name, &root, &text)?;
    }
    Ok(())
}

/// The crates for the GPU in cargo's unit graph, and their root files, without the crates of the
/// compiler's own library.
///
/// # Errors
/// The graph is not understood, or a profile adds flags of rustc to a crate.
fn roots(graph: &str) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let unknown = |what: &str| BuildError::FeaturesUnknown {
        what: format!("cargo's unit graph ({what})"),
    };
    let graph: Value = serde_json::from_str(graph).map_err(|error| unknown(&error.to_string()))?;
    if graph["version"] != 1 {
        return Err(unknown("another version"));
    }
    let mut roots = Vec::new();
    for unit in graph["units"].as_array().ok_or_else(|| unknown("no units"))? {
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
        if unit["is_std"] == true {
            continue;
        }
        let root = unit["target"]["src_path"]
            .as_str()
            .ok_or_else(|| unknown("no root"))?;
        roots.push((name, PathBuf::from(root)));
    }
    Ok(roots)
}

/// Refuses a feature that the crate may not enable.
fn check(krate: &str, file: &Path, text: &str) -> Result<(), BuildError> {
    let features = attributes::features(text).map_err(|line| BuildError::FeaturesUnknown {
        what: format!(
            "the attributes of the crate `{krate}`, which are not understood at {}:{line}",
            file.display()
        ),
    })?;
    let own = OF_CRATE.iter().find(|(name, _)| *name == krate);
    let own = own.map_or(&[][..], |(_, features)| features);
    let is_known = |feature: &str| FEATURES.contains(&feature) || own.contains(&feature);
    match features.into_iter().find(|found| !is_known(&found.name)) {
        None => Ok(()),
        Some(found) => Err(BuildError::UnstableFeature {
            krate: krate.to_owned(),
            file: file.to_owned(),
            line: found.line,
            feature: found.name,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_std_may_enable_its_own_features_and_no_other_crate_may() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../device-std/src/lib.rs");
        let text = fs::read_to_string(&file).unwrap();
        check("device_std", &file, &text).unwrap();
        let error = check("slot", &file, &text).unwrap_err();
        assert!(matches!(error, BuildError::UnstableFeature { .. }), "{error}");
    }

    #[test]
    fn a_refusal_names_crate_file_line_and_feature() {
        for krate in ["slot", "device_std", "libm"] {
            let text = "#![no_std]\n#![cfg_attr(\n    all(),\n    feature(f16, custom_mir)\n)]\n";
            let error = check(krate, Path::new("/s/lib.rs"), text)
                .unwrap_err()
                .to_string();
            for part in [krate, "/s/lib.rs:4", "`custom_mir`"] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }

    const GRAPH: &str = r#"{"version":1,"units":[
        {"target":{"name":"syn","src_path":"/syn.rs"},"profile":{},"platform":null,"mode":"build"},
        {"target":{"name":"core","src_path":"/core.rs"},"profile":{},"platform":"nvptx64-nvidia-cuda","mode":"build","is_std":true},
        {"target":{"name":"build-script-build","src_path":"/build.rs"},"profile":{},"platform":"nvptx64-nvidia-cuda","mode":"run-custom-build"},
        {"target":{"name":"a-b","src_path":"/a.rs"},"profile":{"rustflags":[]},"platform":"nvptx64-nvidia-cuda","mode":"build"}]}"#;

    #[test]
    fn roots_are_those_of_crates_for_the_gpu_outside_the_compilers_library() {
        let expected = [("a_b".to_owned(), PathBuf::from("/a.rs"))];
        assert_eq!(roots(GRAPH).unwrap(), expected);
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
            let error = roots(&GRAPH.replace(from, to)).unwrap_err();
            assert!(matches!(error, BuildError::ProfileFlags { .. }), "{error}");
        }
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"platform\":\"nvptx64", "\"platform\":\"amdgcn"),
            ("units", "others"),
            ("\"src_path\":\"/a.rs\"", "\"src\":\"/a.rs\""),
        ] {
            let error = roots(&GRAPH.replace(from, to)).unwrap_err();
            assert!(matches!(error, BuildError::FeaturesUnknown { .. }), "{error}");
        }
    }
}
