//! The source files that the compiler read for the kernels' own crate.
//!
//! The compiler lists them in a file of dependency information, in the form of a makefile. The list
//! has each module, and each file of `include!`, `include_str!` and `include_bytes!`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::features::dep_info;

/// The files in the dependency information at `path`. Relative paths in it begin at `base`.
pub(crate) fn files(path: &Path, base: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let text = fs::read_to_string(path).map_err(BuildError::io(path))?;
    let unknown = || BuildError::Unsearched {
        what: format!("the list of source files in {}", path.display()),
    };
    let names = path.to_str().and_then(|path| dep_info::files(path, &text));
    let files = names.ok_or_else(unknown)?.into_iter().map(|file| base.join(file));
    // The compiler read the files, so they exist.
    files
        .map(|file| file.canonicalize().map_err(BuildError::io(&file)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
