//! Profile that kernels are compiled with, whatever the settings of their crate and workspace are.

/// A profile of our own, so that neither the crate's settings nor the workspace's change the code.
pub(crate) const PROFILE: &str = "cuda-rt-kernels";
/// Entries survive only under LTO, and only with a `cdylib` that names the crates which have them.
pub(crate) const PROFILE_SETTINGS: [&str; 7] = [
    "inherits=\"release\"",
    "opt-level=3",
    "panic=\"abort\"",
    "lto=true",
    "codegen-units=1",
    "overflow-checks=false",
    "debug-assertions=false",
];
/// No debug information, and no path that says where the sources lie.
pub(crate) const WITHOUT_LINES: [&str; 2] = ["debug=false", "trim-paths=\"all\""];
/// What `nvcc -lineinfo` writes: `.loc` and `.file`, with paths at which a profiler finds the
/// sources; no code changes for it.
pub(crate) const WITH_LINES: [&str; 2] = [
    "debug=\"line-directives-only\"",
    "trim-paths=[\"macro\", \"diagnostics\"]",
];
