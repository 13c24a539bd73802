use std::path::PathBuf;
use std::process::Command;

use crate::environment;
use crate::error::BuildError;

/// The target that kernels are compiled for.
pub(crate) const TARGET: &str = "nvptx64-nvidia-cuda";

/// The directory of the sources of rustc's own library, in the compiler's directory.
const SOURCES: &str = "lib/rustlib/src/rust";

/// A nightly toolchain with the sources of `core`.
#[derive(Debug)]
pub(crate) struct Toolchain {
    name: String,
    /// The directory of the compiler.
    sysroot: PathBuf,
    /// The output of `rustc --version`.
    pub(crate) version: String,
}

impl Toolchain {
    /// Finds the compiler and its sources before the build starts, so that an error can name the
    /// missing part in one sentence.
    pub(crate) fn find(name: &str) -> Result<Self, BuildError> {
        let rustc = |argument: &[&str]| {
            let output = Self::command(name, "rustc")
                .args(argument)
                .output()
                .map_err(BuildError::NoRustup)?;
            if !output.status.success() {
                return Err(BuildError::NoToolchain {
                    toolchain: name.to_owned(),
                });
            }
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = rustc(&["--version"])?;
        let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?);
        if !sysroot.join(SOURCES).join("library/core").is_dir() {
            return Err(BuildError::NoRustSrc {
                toolchain: name.to_owned(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            sysroot,
            version,
        })
    }

    /// Refuses an architecture that the compiler does not list: LLVM would write any name into the
    /// text.
    pub(crate) fn check_architecture(&self, name: &str) -> Result<(), BuildError> {
        let output = Self::command(&self.name, "rustc")
            .args(["--print", "target-cpus", "--target", TARGET])
            .output()
            .map_err(BuildError::NoRustup)?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let known: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|word| word.starts_with("sm_"))
            .collect();
        if known.contains(&name) {
            return Ok(());
        }
        Err(BuildError::Architecture {
            asked: name.to_owned(),
            known: known.join(", "),
        })
    }

    /// The version as the name of a directory.
    pub(crate) fn slug(&self) -> String {
        let kept = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        self.version.chars().map(kept).collect()
    }

    /// The directory of the sources of rustc's own library.
    pub(crate) fn sources(&self) -> PathBuf {
        self.sysroot.join(SOURCES)
    }

    pub(crate) fn rustc(&self) -> Command {
        Self::command(&self.name, "rustc")
    }

    pub(crate) fn cargo(&self) -> Command {
        Self::command(&self.name, "cargo")
    }

    /// Runs the program through `rustup run`: inside a build script, `cargo` is the cargo of a
    /// toolchain, which does not take `+nightly`.
    fn command(toolchain: &str, program: &str) -> Command {
        let mut command = Command::new("rustup");
        environment::clean(&mut command).args(["run", toolchain, program]);
        command
    }
}
