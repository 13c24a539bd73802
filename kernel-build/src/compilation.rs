//! The command that compiles kernels.
//!
//! rustc compiles each crate twice: once for the search for mutable statics (`statics.rs`), and
//! once for the kernels. A source can see much of its compilation: the environment, the directories
//! in `OUT_DIR` and `LD_LIBRARY_PATH`, the features of the architecture, its own path. So the two
//! compilations must not differ in anything that a source can see, or it could show the search
//! another program than the program that is built. Therefore cargo runs once, and the program that
//! it runs in place of rustc runs rustc twice (`features/wrapper.rs`, `features/search.rs`).
//!
//! Earlier, cargo ran twice. Counterexamples: the directory of a build script's outputs had another
//! name in each run, which the source read by `env!("OUT_DIR")`; and of a crate that a file older
//! than the first run replaced, cargo took the output of one run for fresh, and not of the other.
//!
//! The user's configuration of cargo adds no flag of rustc to them. Cargo takes flags from one
//! place only, and the first place is the variable [`RUSTFLAGS`]. So the flags are in this
//! variable, and cargo reads neither `build.rustflags` nor `target.….rustflags`. Counterexample:
//! cargo joins a setting `target.….rustflags` on the command line with the setting of the same
//! name in each configuration file; there, the flag `-Cpasses=globalopt` turned statics into
//! registers before the search.

use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::features::{CHANGED, REFUSED, UNSEARCHED};
use crate::profile::{PROFILE, PROFILE_SETTINGS, WITH_LINES, WITHOUT_LINES};
use crate::toolchain::{TARGET, Toolchain};

/// The variable that holds the flags of rustc, separated by [`SEPARATOR`].
const RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
const SEPARATOR: &str = "\x1f";
/// Flags for all crates.
///
/// LLVM writes no jump table: the verifier refuses them, because the index of `brx.idx` may lie
/// outside the table.
///
/// Each local variable has an address of its own, also behind its last use. Counterexample: LLVM
/// takes the addresses of two variables for different, drops a check of bounds that their
/// difference passes, and then puts both at one place (rust-lang/rust#107975).
const FLAGS: [&str; 3] = [
    "-Csymbol-mangling-version=v0",
    "-Cllvm-args=-min-jump-table-entries=4294967295",
    "-Cllvm-args=-no-stack-coloring",
];
/// Flags for the kernels' own crate: the PTX and the LLVM IR of all crates together, in a `cdylib`.
const OWN_FLAGS: [&str; 2] = ["--emit=asm,llvm-ir", "-Zno-link"];

/// The inputs of the compilation.
pub(crate) struct Compilation<'c> {
    pub(crate) toolchain: &'c Toolchain,
    /// The program that runs rustc with the lists of features (`features.rs`).
    pub(crate) wrapper: &'c Path,
    pub(crate) architecture: &'c str,
    pub(crate) manifest: &'c Path,
    /// Argument of `--remap-path-prefix`.
    pub(crate) remap: Option<&'c str>,
    /// Whether the text keeps source lines.
    pub(crate) lines: bool,
    /// An absolute path, which no other compiler, profile or architecture uses.
    pub(crate) target_dir: &'c Path,
}

impl Compilation<'_> {
    /// The directory of the outputs for the GPU.
    pub(crate) fn directory(&self) -> PathBuf {
        self.target_dir.join(TARGET).join(PROFILE)
    }

    /// The directory of the outputs for the host: macros, build scripts, and their dependencies.
    pub(crate) fn host_directory(&self) -> PathBuf {
        self.target_dir.join(PROFILE)
    }

    /// The arguments of cargo, without flags of rustc.
    fn cargo_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["rustc", "--lib", "--target", TARGET, "--profile", PROFILE]
            .into_iter()
            .chain(["-Zbuild-std=core", "-Ztrim-paths", "--color=never"])
            // Cargo's standard error then holds the text of rustc, and no progress of its own.
            .chain(["--message-format=json-render-diagnostics", "--quiet"])
            .map(str::to_owned)
            .collect();
        arguments.push("--crate-type=cdylib".to_owned());
        arguments.push(format!("--manifest-path={}", self.manifest.display()));
        arguments.push(format!("--target-dir={}", self.target_dir.display()));
        let lines = if self.lines { WITH_LINES } else { WITHOUT_LINES };
        let settings = PROFILE_SETTINGS.iter().chain(&lines);
        let settings = settings.map(|setting| format!("profile.{PROFILE}.{setting}"));
        let configuration = [
            // This setting replaces `build.build-dir` of the user's configuration.
            format!("build.build-dir={:?}", self.target_dir.display().to_string()),
            // rustc inherits cargo's environment, and sources can read it. They see an empty
            // variable.
            format!("env.{RUSTFLAGS}.value=\"\""),
            format!("env.{RUSTFLAGS}.force=true"),
        ];
        for setting in settings.chain(configuration) {
            arguments.extend(["--config".to_owned(), setting]);
        }
        arguments
    }

    /// The arguments of cargo for the compilation, which end with flags for the kernels' own crate.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = self.cargo_arguments();
        arguments.push("--".to_owned());
        arguments.extend(OWN_FLAGS.map(str::to_owned));
        arguments.extend(self.remap.map(|remap| format!("--remap-path-prefix={remap}")));
        arguments
    }

    /// The flags of rustc for all crates that are compiled for the GPU.
    fn flags(&self) -> String {
        let architecture = format!("-Ctarget-cpu={}", self.architecture);
        let flags = FLAGS.into_iter().chain([architecture.as_str()]);
        flags.collect::<Vec<_>>().join(SEPARATOR)
    }

    /// Compiles, and returns cargo's messages about the crates so far, and whether all were
    /// compiled.
    ///
    /// # Errors
    /// Cargo does not start.
    pub(crate) fn run(&self) -> Result<(String, Result<(), BuildError>), BuildError> {
        self.cargo(self.arguments())
    }

    /// Cargo's list of the compilations and their profiles (the *unit graph*), as JSON. Nothing is
    /// compiled.
    pub(crate) fn unit_graph(&self) -> Result<String, BuildError> {
        let mut arguments = self.cargo_arguments();
        arguments.extend(["--unit-graph", "-Zunstable-options"].map(str::to_owned));
        let (graph, result) = self.cargo(arguments)?;
        result.map(|()| graph)
    }

    /// Runs cargo, and returns its standard output and its success.
    fn cargo(&self, arguments: Vec<String>) -> Result<(String, Result<(), BuildError>), BuildError> {
        let mut cargo = self.toolchain.cargo();
        cargo.env(RUSTFLAGS, self.flags());
        // The variable replaces `build.rustc-wrapper` of the user's configuration.
        cargo.env("RUSTC_WRAPPER", self.wrapper);
        let output = cargo.args(arguments).output();
        let output = output.map_err(BuildError::NoRustup)?;
        let result = if output.status.success() {
            Ok(())
        } else {
            Err(failure(String::from_utf8_lossy(&output.stderr).into_owned()))
        };
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), result))
    }
}

/// The error for what cargo, rustc and the program in place of rustc have printed.
fn failure(diagnostics: String) -> BuildError {
    // rustc's code for a feature that `-Zallow-features` does not list.
    if diagnostics.contains("error[E0725]") {
        return BuildError::UnstableFeature { diagnostics };
    }
    if diagnostics.contains(REFUSED) {
        return BuildError::HiddenUnsafe { diagnostics };
    }
    if diagnostics.contains(CHANGED) {
        return BuildError::ChangedFile { diagnostics };
    }
    match diagnostics.split_once(UNSEARCHED) {
        Some((_, what)) => BuildError::Unsearched {
            what: what.lines().next().unwrap_or_default().to_owned(),
        },
        None => BuildError::Compile { diagnostics },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_cannot_be_searched_is_named() {
        let error = failure(format!(
            "{UNSEARCHED}the crate `slot`: why\nerror: could not compile\n"
        ));
        assert!(
            matches!(&error, BuildError::Unsearched { what } if what == "the crate `slot`: why"),
            "{error}"
        );
        let error = failure("error: could not compile".to_owned());
        assert!(matches!(error, BuildError::Compile { .. }), "{error}");
    }
}
