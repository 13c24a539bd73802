//! The source files that the compiler read for the kernels' own crate.
//!
//! The compiler lists them in a file of dependency information, in the form of a makefile. The list
//! has each module, and each file of `include!`, `include_str!` and `include_bytes!`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// The files in the dependency information at `path`. Relative paths in it begin at `base`.
pub(crate) fn files(path: &Path, base: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let text = fs::read_to_string(path).map_err(BuildError::io(path))?;
    let files: Vec<PathBuf> = listed(&text).map(|file| base.join(file)).collect();
    if files.is_empty() {
        let what = format!("the list of source files in {}", path.display());
        return Err(BuildError::Unsearched { what });
    }
    // The compiler read the files, so they exist.
    files
        .into_iter()
        .map(|file| file.canonicalize().map_err(BuildError::io(&file)))
        .collect()
}

/// Each file has a rule of its own without dependencies: its name, where a space is `\ `, and a
/// colon.
fn listed(text: &str) -> impl Iterator<Item = String> {
    let rules = text.lines().filter(|line| !line.starts_with('#'));
    rules
        .filter_map(|line| line.strip_suffix(':'))
        .map(|name| name.replace("\\ ", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rules_without_dependencies() {
        let text = "/t/k.d: src/lib.rs src/a\\ b.rs /x/table.in\n\n/t/k.s: src/lib.rs src/a\\ b.rs /x/table.in\n\n\
                    src/lib.rs:\nsrc/a\\ b.rs:\n/x/table.in:\n\n# env-dep:CARGO_PKG_NAME=k\n# env-dep:X:\n";
        let files: Vec<String> = listed(text).collect();
        assert_eq!(files, ["src/lib.rs", "src/a b.rs", "/x/table.in"]);
    }

    #[test]
    fn a_list_without_files_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k.d");
        fs::write(&path, "/t/k.d:\n".replace(':', ": x")).unwrap();
        let error = files(&path, directory.path()).unwrap_err();
        assert!(matches!(error, BuildError::Unsearched { .. }), "{error}");
        let error = files(&directory.path().join("none.d"), directory.path()).unwrap_err();
        assert!(matches!(error, BuildError::Io { .. }), "{error}");
    }
}
