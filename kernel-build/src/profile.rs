//! The cargo profile that kernels are compiled with.

use serde_json::{Value, json};

/// A profile of its own, so that neither the crate's settings nor the workspace's change the code.
pub(crate) const PROFILE: &str = "cuda-rt-kernels";
/// Settings of the profile. The linker keeps entries only with LTO, and only in a `cdylib` that
/// names the entries' crates.
pub(crate) const PROFILE_SETTINGS: [&str; 9] = [
    "inherits=\"release\"",
    "opt-level=3",
    "panic=\"abort\"",
    "lto=true",
    "codegen-units=1",
    "overflow-checks=false",
    "debug-assertions=false",
    // Without these settings, those of the workspace's `[profile.release]` would count.
    "incremental=false",
    "rpath=false",
];
/// Settings without debug information, and without paths of the sources.
pub(crate) const WITHOUT_LINES: [&str; 3] = ["debug=false", "strip=\"debuginfo\"", "trim-paths=\"all\""];
/// Settings for `.loc` and `.file`, as `nvcc -lineinfo` writes them, with paths at which a profiler
/// finds the sources. The code stays the same.
pub(crate) const WITH_LINES: [&str; 3] = [
    "debug=\"line-directives-only\"",
    "strip=\"none\"",
    "trim-paths=[\"macro\", \"diagnostics\"]",
];

/// The keys of a crate's profile in cargo's unit graph, and the values that the settings give them.
/// Cargo leaves out what a value of `null` stands for.
fn expected(lines: bool) -> [(&'static str, Vec<Value>); 14] {
    let (debug, strip, paths) = if lines {
        (
            json!("line-directives-only"),
            json!("None"),
            json!(["macro", "diagnostics"]),
        )
    } else {
        // Cargo writes all paths as `null`.
        (json!(0), json!({"Named": "debuginfo"}), Value::Null)
    };
    // Cargo says whether it has derived the value.
    let strip = vec![json!({"resolved": strip}), json!({"deferred": strip})];
    // No setting means none. Nothing is linked, so what a workspace wants makes no difference.
    let split = vec![Value::Null, json!("off"), json!("packed"), json!("unpacked")];
    [
        ("name", vec![json!(PROFILE)]),
        ("opt_level", vec![json!("3")]),
        ("panic", vec![json!("abort")]),
        ("lto", vec![json!("true")]),
        ("codegen_units", vec![json!(1)]),
        ("overflow_checks", vec![json!(false)]),
        ("debug_assertions", vec![json!(false)]),
        ("incremental", vec![json!(false)]),
        ("rpath", vec![json!(false)]),
        ("split_debuginfo", split),
        ("strip", strip),
        ("debuginfo", vec![debug]),
        ("trim_paths", vec![paths]),
        ("codegen_backend", vec![Value::Null]),
    ]
}

/// A key of a crate's profile that has another value than the settings give it: the key as in a
/// `Cargo.toml`, and its value. `profile` is the crate's profile in cargo's unit graph, and `lines`
/// says whether the text keeps source lines. A key that these settings do not know must be unset.
pub(crate) fn changed(profile: &serde_json::Map<String, Value>, lines: bool) -> Option<(String, String)> {
    let expected = expected(lines);
    let missing = expected
        .iter()
        .filter(|(_, values)| !values.contains(&Value::Null))
        .find(|(key, _)| !profile.contains_key(*key))
        .map(|(key, _)| (*key, &Value::Null));
    let is_expected = |key: &str, value: &Value| match expected.iter().find(|(known, _)| *known == key) {
        Some((_, values)) => values.contains(value),
        None => value.is_null() || *value == json!(false) || *value == json!([]),
    };
    let other = profile.iter().map(|(key, value)| (key.as_str(), value));
    let other = || other.clone().find(|(key, value)| !is_expected(key, value));
    let (key, value) = missing.or_else(other)?;
    let key = if key == "debuginfo" { "debug" } else { key };
    Some((key.replace('_', "-"), value.to_string()))
}
