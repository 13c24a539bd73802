//! The command that compiles kernels.
//!
//! Kernels are compiled twice: once to PTX, and once for the search for mutable statics
//! (`statics.rs`). A source can see much of its compilation: the environment, the profile's
//! directory in `LD_LIBRARY_PATH`, the features of the architecture, its own path. So the two
//! compilations must not differ in anything that a source can see, or it could show the search
//! another program than the program that is built. One function makes both commands; they differ
//! only in [`Purpose`].
//!
//! The user's configuration of cargo adds no flag of rustc to them. Cargo takes flags from one
//! place only, and the first place is the variable [`RUSTFLAGS`]. So the flags are in this
//! variable, and cargo reads neither `build.rustflags` nor `target.….rustflags`. Counterexample:
//! cargo joins a setting `target.….rustflags` on the command line with the setting of the same name
//! in each configuration file; there, the flag `-Cpasses=globalopt` turned statics into registers
//! before the search.

use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::features::{CHANGED, REFUSED};
use crate::profile::{PROFILE, PROFILE_SETTINGS, WITH_LINES, WITHOUT_LINES};
use crate::toolchain::{TARGET, Toolchain};

/// The variable that holds the flags of rustc, separated by [`SEPARATOR`].
const RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
const SEPARATOR: &str = "\x1f";
/// Flags of both compilations. LLVM writes no jump table: the verifier refuses them, because the
/// index of `brx.idx` may lie outside the table.
const ALWAYS: [&str; 2] = [
    "-Csymbol-mangling-version=v0",
    "-Cllvm-args=-min-jump-table-entries=4294967295",
];

/// The inputs of both compilations.
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

/// The differences between the two compilations. No source can see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Optimised PTX and LLVM IR of all crates together, in a `cdylib`.
    Kernels,
    /// The LLVM IR of each crate, not optimised.
    Statics,
}

impl Purpose {
    fn crate_type(self) -> &'static str {
        match self {
            Self::Kernels => "cdylib",
            // The library's outputs have a hash in their names, so they replace no text of kernels.
            Self::Statics => "lib",
        }
    }

    /// Flags for all crates: the output, and no optimisation.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Kernels => &[],
            Self::Statics => &["--emit=llvm-ir", "-Cno-prepopulate-passes", "-Zmir-opt-level=0"],
        }
    }

    /// Flags for the kernels' own crate.
    fn last_flags(self) -> &'static [&'static str] {
        match self {
            Self::Kernels => &["--emit=asm,llvm-ir", "-Zno-link"],
            Self::Statics => &[],
        }
    }
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
    fn cargo_arguments(&self, purpose: Purpose) -> Vec<String> {
        let mut arguments: Vec<String> = ["rustc", "--lib", "--target", TARGET, "--profile", PROFILE]
            .into_iter()
            .chain(["-Zbuild-std=core", "-Ztrim-paths", "--color=never"])
            // Cargo's standard error then holds the text of rustc, and no progress of its own.
            .chain(["--message-format=json-render-diagnostics", "--quiet"])
            .map(str::to_owned)
            .collect();
        arguments.push(format!("--crate-type={}", purpose.crate_type()));
        arguments.push(format!("--manifest-path={}", self.manifest.display()));
        arguments.push(format!("--target-dir={}", self.target_dir.display()));
        let lines = if self.lines { WITH_LINES } else { WITHOUT_LINES };
        let settings = PROFILE_SETTINGS.iter().chain(&lines);
        let settings = settings.map(|setting| format!("profile.{PROFILE}.{setting}"));
        let configuration = [
            // This setting replaces `build.build-dir` of the user's configuration.
            format!("build.build-dir={:?}", self.target_dir.display().to_string()),
            // rustc inherits cargo's environment, and sources can read it. The flags of the two
            // compilations differ, so the sources see an empty variable.
            format!("env.{RUSTFLAGS}.value=\"\""),
            format!("env.{RUSTFLAGS}.force=true"),
        ];
        for setting in settings.chain(configuration) {
            arguments.extend(["--config".to_owned(), setting]);
        }
        arguments
    }

    /// The arguments of cargo for the compilation, which end with flags for the kernels' own crate.
    fn arguments(&self, purpose: Purpose) -> Vec<String> {
        let mut arguments = self.cargo_arguments(purpose);
        arguments.push("--".to_owned());
        arguments.extend(purpose.last_flags().iter().map(|flag| (*flag).to_owned()));
        arguments.extend(self.remap.map(|remap| format!("--remap-path-prefix={remap}")));
        arguments
    }

    /// The flags of rustc for all crates that are compiled for the GPU.
    fn flags(&self, purpose: Purpose) -> String {
        let architecture = format!("-Ctarget-cpu={}", self.architecture);
        let flags = ALWAYS.iter().copied().chain([architecture.as_str()]);
        let flags: Vec<&str> = flags.chain(purpose.flags().iter().copied()).collect();
        flags.join(SEPARATOR)
    }

    /// Compiles, and returns cargo's messages.
    pub(crate) fn run(&self, purpose: Purpose) -> Result<String, BuildError> {
        self.cargo(purpose, self.arguments(purpose))
    }

    /// Cargo's list of the compilations and their profiles (the *unit graph*), as JSON. Nothing is
    /// compiled.
    pub(crate) fn unit_graph(&self) -> Result<String, BuildError> {
        let mut arguments = self.cargo_arguments(Purpose::Kernels);
        arguments.extend(["--unit-graph", "-Zunstable-options"].map(str::to_owned));
        self.cargo(Purpose::Kernels, arguments)
    }

    fn cargo(&self, purpose: Purpose, arguments: Vec<String>) -> Result<String, BuildError> {
        let mut cargo = self.toolchain.cargo();
        cargo.env(RUSTFLAGS, self.flags(purpose));
        // The variable replaces `build.rustc-wrapper` of the user's configuration.
        cargo.env("RUSTC_WRAPPER", self.wrapper);
        let output = cargo.args(arguments).output();
        let output = output.map_err(BuildError::NoRustup)?;
        if !output.status.success() {
            let diagnostics = String::from_utf8_lossy(&output.stderr).into_owned();
            // rustc's code for a feature that `-Zallow-features` does not list.
            if diagnostics.contains("error[E0725]") {
                return Err(BuildError::UnstableFeature { diagnostics });
            }
            if diagnostics.contains(REFUSED) {
                return Err(BuildError::HiddenUnsafe { diagnostics });
            }
            if diagnostics.contains(CHANGED) {
                return Err(BuildError::ChangedFile { diagnostics });
            }
            return Err(BuildError::Compile { diagnostics });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source sees the environment, the directories, the profile and the features of the target.
    /// It sees neither the kind of output nor the optimisation.
    #[test]
    fn both_compilations_look_alike_to_a_source() {
        let toolchain = Toolchain::for_tests();
        let compilation = Compilation {
            toolchain: &toolchain,
            wrapper: Path::new("/w"),
            architecture: "sm_90",
            manifest: Path::new("/k/Cargo.toml"),
            remap: Some("/k="),
            lines: false,
            target_dir: Path::new("/t"),
        };
        let unseen = [
            "--emit=",
            "-Zno-link",
            "-Cno-prepopulate-passes",
            "-Zmir-opt-level=",
            "--crate-type=",
        ];
        let seen = |purpose| {
            let flags = compilation.flags(purpose);
            let flags = flags.split(SEPARATOR).map(str::to_owned);
            let arguments = compilation.arguments(purpose).into_iter().chain(flags);
            let words = arguments.flat_map(|argument| {
                let words = argument.split(['"', '[', ']', ' ']).map(str::to_owned);
                words
                    .filter(|word| !["", ","].contains(&word.as_str()))
                    .collect::<Vec<_>>()
            });
            words
                .filter(|word| !unseen.iter().any(|start| word.starts_with(start)))
                .collect::<Vec<_>>()
        };
        let kernels = seen(Purpose::Kernels);
        assert_eq!(kernels, seen(Purpose::Statics));
        for word in [
            "-Ctarget-cpu=sm_90",
            "--remap-path-prefix=/k=",
            "--profile",
            "build.build-dir=",
            "-Ztrim-paths",
            "env.CARGO_ENCODED_RUSTFLAGS.value=",
            "env.CARGO_ENCODED_RUSTFLAGS.force=true",
        ] {
            assert!(kernels.iter().any(|known| known == word), "{word}: {kernels:?}");
        }
    }
}
