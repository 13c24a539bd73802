//! The cargo profile that kernels are compiled with.

/// A profile of its own, so that neither the crate's settings nor the workspace's change the code.
pub(crate) const PROFILE: &str = "cuda-rt-kernels";
/// Settings of the profile. The linker keeps entries only with LTO, and only in a `cdylib` that
/// names the entries' crates.
pub(crate) const PROFILE_SETTINGS: [&str; 7] = [
    "inherits=\"release\"",
    "opt-level=3",
    "panic=\"abort\"",
    "lto=true",
    "codegen-units=1",
    "overflow-checks=false",
    "debug-assertions=false",
];
/// Settings without debug information, and without paths of the sources.
pub(crate) const WITHOUT_LINES: [&str; 2] = ["debug=false", "trim-paths=\"all\""];
/// Settings for `.loc` and `.file`, as `nvcc -lineinfo` writes them, with paths at which a profiler
/// finds the sources. The code stays the same.
pub(crate) const WITH_LINES: [&str; 2] = [
    "debug=\"line-directives-only\"",
    "trim-paths=[\"macro\", \"diagnostics\"]",
];
