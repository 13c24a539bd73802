//! A note in the first line of a PTX text: a hash of the sources that the text was built from.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;

const NOTE: &str = "// Sources: ";

/// The source files of kernels, without the packages that the kernels depend on.
pub(crate) struct Sources {
    root: PathBuf,
    /// Files and directories, relative to the root.
    parts: Vec<PathBuf>,
}

impl Sources {
    pub(crate) fn of_package(package: &Path) -> Self {
        Self {
            root: package.to_owned(),
            parts: ["Cargo.toml", "src"].map(PathBuf::from).into(),
        }
    }

    /// `kernels.rs` and the directory `kernels`, if there is one.
    pub(crate) fn of_module(file: &Path) -> Self {
        let directory = if file.ends_with("mod.rs") {
            file.parent().unwrap_or(Path::new("")).to_owned()
        } else {
            file.with_extension("")
        };
        let parts = [
            (file, !file.ends_with("mod.rs")),
            (&directory, directory.is_dir()),
        ];
        let parts = parts.into_iter().filter(|(_, is_part)| *is_part);
        Self {
            root: directory.parent().unwrap_or(Path::new("")).to_owned(),
            parts: parts
                .filter_map(|(part, _)| part.file_name().map(PathBuf::from))
                .collect(),
        }
    }

    /// Refuses a file that the note does not cover.
    pub(crate) fn must_cover(&self, files: &[PathBuf]) -> Result<(), BuildError> {
        let parts = self.watched().filter_map(|part| part.canonicalize().ok());
        let parts: Vec<PathBuf> = parts.collect();
        let is_covered = |file: &&PathBuf| parts.iter().any(|part| file.starts_with(part));
        match files.iter().find(|file| !is_covered(file)) {
            None => Ok(()),
            Some(file) => Err(BuildError::UncoveredSource {
                file: file.clone(),
                covered: self.directory(),
            }),
        }
    }

    /// The directory whose files the note covers.
    fn directory(&self) -> PathBuf {
        let last = self.parts.last().map_or(Path::new(""), PathBuf::as_path);
        self.root.join(last).with_extension("")
    }

    /// Paths that cargo must watch.
    pub(crate) fn watched(&self) -> impl Iterator<Item = PathBuf> {
        self.parts.iter().map(|part| self.root.join(part))
    }

    /// The note for these sources and architectures. It does not depend on the place of the
    /// sources, nor on the ends of their lines.
    pub(crate) fn note(&self, architectures: &[String]) -> Result<String, BuildError> {
        let mut files = Vec::new();
        for part in &self.parts {
            collect(&self.root, part, &mut files)?;
        }
        files.sort();
        let mut hash = Fnv::new();
        // The version stands for the macros and for this crate, which decide what the sources
        // compile to.
        hash.text(env!("CARGO_PKG_VERSION").as_bytes());
        hash.text(architectures.join(" ").as_bytes());
        for (name, text) in &files {
            hash.text(name.as_bytes());
            hash.text(text);
        }
        let mut note = String::from(NOTE);
        writeln!(note, "{:016x}", hash.0).expect("a write to a string does not fail");
        Ok(note)
    }
}

/// The hash in the note of a text.
pub(crate) fn noted(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix(NOTE)
}

fn collect(root: &Path, part: &Path, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), BuildError> {
    let path = root.join(part);
    if !path.is_dir() {
        let mut text = fs::read(&path).map_err(BuildError::io(&path))?;
        // git may check out lines that end in `\r\n`.
        text.retain(|byte| *byte != b'\r');
        let name = part.components().map(|c| c.as_os_str().to_string_lossy());
        files.push((name.collect::<Vec<_>>().join("/"), text));
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(BuildError::io(&path))? {
        let entry = entry.map_err(BuildError::io(&path))?;
        collect(root, &part.join(entry.file_name()), files)?;
    }
    Ok(())
}

/// FNV-1a. The hash finds sources that changed by accident; it does not protect against forgery.
pub(crate) struct Fnv(u64);

impl Fnv {
    /// The hash of one text, as `device_std::rt::VERSION` has it.
    pub(crate) fn of_text(text: &str) -> u64 {
        let mut hash = Self::new();
        hash.text(text.as_bytes());
        hash.0
    }

    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a text. Its length comes first, so that ("ab", "c") and ("a", "bc") differ.
    fn text(&mut self, text: &[u8]) {
        for byte in (text.len() as u64).to_le_bytes().iter().chain(text) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn note(files: &[(&str, &str)]) -> String {
        Sources::of_package(package(files).path()).note(&[]).unwrap()
    }

    #[test]
    fn a_note_depends_on_names_and_texts_but_not_on_the_place() {
        let one = note(&[("Cargo.toml", "a"), ("src/lib.rs", "b\nc")]);
        assert_eq!(one, note(&[("Cargo.toml", "a"), ("src/lib.rs", "b\r\nc")]));
        assert_ne!(one, note(&[("Cargo.toml", "a"), ("src/lib.rs", "b\nd")]));
        assert_ne!(one, note(&[("Cargo.toml", "a"), ("src/main.rs", "b\nc")]));
        assert_ne!(
            one,
            note(&[("Cargo.toml", "a"), ("src/lib.rs", "b\nc"), ("src/k.rs", "")])
        );
        let directory = package(&[("Cargo.toml", "a"), ("src/lib.rs", "b\nc")]);
        let newer = Sources::of_package(directory.path())
            .note(&["sm_90".to_owned()])
            .unwrap();
        assert_ne!(one, newer);
        assert_eq!(noted(&one).map(str::len), Some(16));
    }

    #[test]
    fn sources_of_a_module_are_its_file_or_its_directory() {
        let directory = package(&[("src/kernels.rs", "a"), ("src/main.rs", "x")]);
        let file = directory.path().join("src/kernels.rs");
        let before = Sources::of_module(&file).note(&[]).unwrap();
        fs::write(directory.path().join("src/main.rs"), "y").unwrap();
        assert_eq!(before, Sources::of_module(&file).note(&[]).unwrap());

        fs::create_dir(directory.path().join("src/kernels")).unwrap();
        let before = Sources::of_module(&file).note(&[]).unwrap();
        fs::write(directory.path().join("src/kernels/deep.rs"), "b").unwrap();
        assert_ne!(before, Sources::of_module(&file).note(&[]).unwrap());
        let file = directory.path().join("src/kernels/mod.rs");
        fs::write(&file, "a").unwrap();
        let before = Sources::of_module(&file).note(&[]).unwrap();
        fs::write(directory.path().join("src/kernels/sub.rs"), "b").unwrap();
        assert_ne!(before, Sources::of_module(&file).note(&[]).unwrap());
    }

    #[test]
    fn a_file_that_the_note_does_not_cover_is_refused() {
        let directory = package(&[("src/kernels.rs", "a"), ("src/main.rs", "x")]);
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("src/kernels")).unwrap();
        let of_module = Sources::of_module(&root.join("src/kernels.rs"));
        let of_package = Sources::of_package(&root);
        let covered = ["src/kernels.rs", "src/kernels/deep.rs"].map(|file| root.join(file));
        of_module.must_cover(&covered).unwrap();
        of_package.must_cover(&covered).unwrap();
        let error = of_module.must_cover(&[root.join("src/deep.rs")]).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("deep.rs") && words.contains("src/kernels, or"),
            "{words}"
        );
        for outside in ["build/table.rs", "src2/lib.rs"] {
            let error = of_package.must_cover(&[root.join(outside)]).unwrap_err();
            assert!(matches!(error, BuildError::UncoveredSource { .. }), "{error}");
        }
    }
}
