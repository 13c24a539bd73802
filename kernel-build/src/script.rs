//! Builds kernels in a build script, or uses their committed PTX.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::BuildError;
use crate::kernels::{Kernels, Source};
use crate::sources::{Sources, noted};
use crate::toolchain::TARGET;
use crate::verify::verify;

/// The environment variable that, set to 1, makes a build write the committed PTX.
const UPDATE: &str = "CUDA_RT_UPDATE_PTX";

impl Kernels {
    /// A whole build script: calls [`build`](Self::build), and prints an error to standard error,
    /// which cargo shows for a script that fails.
    ///
    /// ```no_run
    /// // build.rs
    /// fn main() -> std::process::ExitCode {
    ///     kernel_build::Kernels::module("src/kernels.rs").build_script()
    /// }
    /// ```
    #[must_use = "return it from the build script's `main`"]
    pub fn build_script(&self) -> ExitCode {
        let mut watched = Vec::new();
        match self.write(&mut watched).and_then(|_| watch(&watched)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // Cargo runs a script that fails again in any case, and shows all that it has
                // printed. So no files to watch stand beside the error. Lines `cargo::error=` would
                // be shown twice: as errors too.
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Writes `kernels.ptx` into `OUT_DIR`, and returns its path. Only a build script may call
    /// this. The function also asks cargo to run the script again when the kernels change, or a
    /// file that they include. For packages that the kernels depend on, the script itself must
    /// print `cargo::rerun-if-changed`.
    ///
    /// The script of the kernels' own package runs again inside the build for the GPU. In that
    /// build, the function writes no file.
    ///
    /// # Errors
    /// The errors of [`compile`](Self::compile), [`BuildError::NoOutDir`], and
    /// [`Io`](BuildError::Io) also for a path that has the end of a line in it. With a
    /// [committed](Self::committed) file, a missing toolchain is an error only if the file belongs
    /// to other sources ([`Stale`](BuildError::Stale)) or cannot be read, and a source file that
    /// its hash does not cover is an error ([`UncoveredSource`](BuildError::UncoveredSource)).
    pub fn build(&self) -> Result<PathBuf, BuildError> {
        let mut watched = Vec::new();
        let path = self.write(&mut watched);
        watch(&watched)?;
        path
    }

    /// [`build`](Self::build), which adds the files that cargo shall watch to `watched`, also on an
    /// error.
    fn write(&self, watched: &mut Vec<PathBuf>) -> Result<PathBuf, BuildError> {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or(BuildError::NoOutDir)?);
        let path = out.join("kernels.ptx");
        if std::env::var_os("TARGET").is_some_and(|target| target == TARGET) {
            return Ok(path);
        }
        let sources = match &self.source {
            Source::Package(package) => Sources::of_package(package),
            Source::Module(file) => Sources::of_module(file),
        };
        watched.extend(sources.watched().chain(self.committed.clone()));
        let target_dir = out.join("kernels-target");
        let (ptx, files) = self.text(&sources, &target_dir)?;
        // Files that this build has made would always look new to cargo.
        let made = target_dir.canonicalize().unwrap_or(target_dir);
        watched.extend(files.into_iter().filter(|file| !file.starts_with(&made)));
        fs::write(&path, ptx).map_err(BuildError::io(&path))?;
        Ok(path)
    }

    /// The text, and the source files that the compiler read, if it ran.
    fn text(&self, sources: &Sources, target_dir: &Path) -> Result<(String, Vec<PathBuf>), BuildError> {
        let Some(committed) = &self.committed else {
            let module = self.compile(target_dir)?;
            warn(&module.warnings);
            return Ok((module.ptx, module.files));
        };
        let note = sources.note(&self.architectures())?;
        let toolchain = match self.find_toolchain() {
            Ok(toolchain) => toolchain,
            Err(missing) => return Ok((fall_back(committed, &note, missing)?, Vec::new())),
        };
        let module = self.compile_with(&toolchain, target_dir)?;
        warn(&module.warnings);
        sources.must_cover(&module.files)?;
        let ptx = note.clone() + &module.ptx;
        if self.debug_info {
            // The text holds paths of this machine, so it is not committed.
        } else if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
            fs::write(committed, &ptx).map_err(BuildError::io(committed))?;
        } else if !is_of(committed, &note) {
            println!(
                "cargo::warning={} was not built from the present kernels, and users without the toolchain cannot build: \
                 run `{UPDATE}=1 cargo build` and commit it",
                committed.display()
            );
        }
        Ok((ptx, module.files))
    }
}

/// Lets cargo print these lines, which have no line breaks.
fn warn(lines: &[String]) {
    for line in lines {
        println!("cargo::warning={line}");
    }
}

/// Asks cargo to run the script again when one of these files changes, or [`UPDATE`].
///
/// # Errors
/// A path has the end of a line in it. Nothing is printed then.
fn watch(files: &[PathBuf]) -> Result<(), BuildError> {
    print!("{}", requests(files)?);
    Ok(())
}

/// The lines for cargo. Each request is one line, so a path with the end of a line would be another
/// request, for example a flag of rustc.
fn requests(files: &[PathBuf]) -> Result<String, BuildError> {
    let mut lines = String::new();
    for file in files {
        let path = file.display().to_string();
        if path.contains(['\n', '\r']) {
            let why = "cargo cannot watch a path with the end of a line in it: rename the directory";
            return Err(BuildError::io(file)(io::Error::new(
                io::ErrorKind::InvalidInput,
                why,
            )));
        }
        lines += &format!("cargo::rerun-if-changed={path}\n");
    }
    if !files.is_empty() {
        lines += &format!("cargo::rerun-if-env-changed={UPDATE}\n");
    }
    Ok(lines)
}

/// The committed text, if it was built from the present sources.
fn fall_back(committed: &Path, note: &str, missing: BuildError) -> Result<String, BuildError> {
    let text = match fs::read_to_string(committed) {
        Ok(text) => text,
        // The missing toolchain is the error to report; a file that nobody committed is not a
        // second error.
        Err(_) => return Err(missing),
    };
    if noted(&text) != noted(note) {
        return Err(BuildError::Stale {
            path: committed.to_owned(),
            missing: Box::new(missing),
        });
    }
    verify(&text)?;
    println!(
        "cargo::warning=the kernels come from {}, which was built from the present sources, because {missing}",
        committed.display()
    );
    Ok(text)
}

fn is_of(committed: &Path, note: &str) -> bool {
    fs::read_to_string(committed).is_ok_and(|text| noted(&text) == noted(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> BuildError {
        BuildError::NoToolchain {
            toolchain: "nightly".to_owned(),
        }
    }

    #[test]
    fn a_committed_text_is_used_only_for_its_own_sources() {
        let directory = tempfile::tempdir().unwrap();
        let (file, source) = (directory.path().join("k.ptx"), directory.path().join("k.rs"));
        fs::write(&source, "fn one() {}\n").unwrap();
        let note = Sources::of_module(&source).note(&[]).unwrap();
        let text = format!("{note}// Built …\n.version 7.0\n");
        fs::write(&file, &text).unwrap();
        assert_eq!(fall_back(&file, &note, missing()).unwrap(), text);

        fs::write(&source, "fn two() {}\n").unwrap();
        let changed = Sources::of_module(&source).note(&[]).unwrap();
        let unproved = format!("{note}.version 7.0\n.global .align 4 .b8 changes[4];\n");
        fs::write(&file, unproved).unwrap();
        let error = fall_back(&file, &note, missing()).unwrap_err();
        assert!(matches!(error, BuildError::Refused(_)), "{error}");
        fs::write(&file, &text).unwrap();

        let error = fall_back(&file, &changed, missing()).unwrap_err();
        assert!(matches!(error, BuildError::Stale { .. }), "{error}");
        let words = error.to_string();
        assert!(words.contains("rustup toolchain install nightly"), "{words}");

        fs::write(&file, ".version 7.0\n").unwrap();
        let error = fall_back(&file, &changed, missing()).unwrap_err();
        assert!(
            matches!(error, BuildError::Stale { .. }),
            "a file without a note: {error}"
        );
    }

    #[test]
    fn a_path_is_one_line_for_cargo() {
        let lines = requests(&["/k/src/lib.rs".into(), "/k/k.ptx".into()]).unwrap();
        assert_eq!(
            lines,
            "cargo::rerun-if-changed=/k/src/lib.rs\ncargo::rerun-if-changed=/k/k.ptx\n\
             cargo::rerun-if-env-changed=CUDA_RT_UPDATE_PTX\n"
        );
        assert_eq!(requests(&[]).unwrap(), "");
        for end in ["\n", "\r"] {
            let path = format!("/k{end}cargo::rustc-cfg=more/src/lib.rs");
            let error = requests(&["/k/k.ptx".into(), path.into()]).unwrap_err();
            assert!(matches!(error, BuildError::Io { .. }), "{error}");
            assert!(error.to_string().contains("the end of a line"), "{error}");
        }
    }

    #[test]
    fn without_a_committed_file_the_missing_toolchain_is_the_error() {
        let error = fall_back(Path::new("/nonexistent/k.ptx"), "// sources: 1\n", missing()).unwrap_err();
        assert!(matches!(error, BuildError::NoToolchain { .. }), "{error}");
    }
}
