//! [`Output`]: a file that appears only when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::interrupt::Unfinished;

/// The output of frames: a file that is written beside its target and renamed onto it, or a device
/// or pipe.
///
/// If it is dropped before [`commit`](Self::commit), the target stays as it was, even if the target
/// is also the input.
#[derive(Debug)]
pub struct Output(BufWriter<Sink>);

#[derive(Debug)]
enum Sink {
    Nowhere,
    Stdout(io::Stdout),
    /// A device or a pipe. A rename would replace it: `/dev/full` must not become a file.
    InPlace(File),
    Beside {
        part: NamedTempFile,
        target: PathBuf,
        unfinished: Unfinished,
    },
}

/// Size of the write buffer, in bytes. Larger planes bypass the buffer; it gathers the lines
/// between them.
const BUFFER_BYTES: usize = 64 << 10;

impl Output {
    /// Starts an output: `None` drops all bytes, `-` is standard output.
    ///
    /// # Errors
    /// If the directory can't be written to, or the target is a directory.
    pub fn create(path: Option<&Path>) -> io::Result<Self> {
        let sink = match path {
            None => Sink::Nowhere,
            Some(path) if path == Path::new("-") => Sink::Stdout(io::stdout()),
            Some(path) => Sink::open(path)?,
        };
        Ok(Self(BufWriter::with_capacity(BUFFER_BYTES, sink)))
    }

    /// The file, to be written at offsets by several threads, and not through [`Write`]; `None` if
    /// the output has no offsets, like a pipe.
    pub fn file(&self) -> Option<&File> {
        match self.0.get_ref() {
            Sink::Beside { part, .. } => Some(part.as_file()),
            Sink::InPlace(_) | Sink::Stdout(_) | Sink::Nowhere => None,
        }
    }

    /// The directory of the file; `None` if the output is no file.
    pub fn directory(&self) -> Option<&Path> {
        match self.0.get_ref() {
            Sink::Beside { part, .. } => part.path().parent(),
            Sink::InPlace(_) | Sink::Stdout(_) | Sink::Nowhere => None,
        }
    }

    /// Makes the complete file appear under its name.
    ///
    /// # Errors
    /// If the last bytes can't be written, or the file can't be renamed. Then no part of the file
    /// stays.
    pub fn commit(self) -> io::Result<()> {
        match self.0.into_inner().map_err(io::IntoInnerError::into_error)? {
            Sink::Beside {
                part,
                target,
                unfinished,
            } => {
                // Network file systems and quotas may refuse only at this sync, and a crash must
                // not leave an empty file.
                part.as_file().sync_all()?;
                unfinished.finish(|| part.persist(target).map(drop).map_err(|failed| failed.error))
            }
            Sink::InPlace(_) | Sink::Stdout(_) | Sink::Nowhere => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Sink {
    fn open(path: &Path) -> io::Result<Self> {
        // For a link, replace the link's target and not the link.
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                return File::options().write(true).open(&target).map(Self::InPlace);
            }
            _ => {}
        }
        let directory = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".denoise-").suffix(".partial");
        // The user's mask sets the permissions, as for any new file. A temporary file would be
        // private.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let (part, unfinished) = Unfinished::create(|| {
            let part = builder.tempfile_in(directory)?;
            let path = part.path().to_owned();
            Ok((part, path))
        })?;
        Ok(Self::Beside {
            part,
            target,
            unfinished,
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nowhere => Ok(bytes.len()),
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::InPlace(file) => file.write(bytes),
            Self::Beside { part, .. } => part.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout(stdout) => stdout.flush(),
            Self::InPlace(file) => file.flush(),
            Self::Beside { part, .. } => part.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out.y4m");
        let mut output = Output::create(Some(&target)).unwrap();
        output.write_all(&[7; 1 << 20]).unwrap();
        assert!(!target.exists());
        output.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), [7; 1 << 20]);
        assert_eq!(names(directory.path()), ["out.y4m"]);
    }

    #[test]
    fn a_dropped_output_leaves_the_target_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out.y4m");
        fs::write(&target, "before").unwrap();
        let mut output = Output::create(Some(&target)).unwrap();
        output.write_all(&[7; 1 << 20]).unwrap();
        drop(output);
        assert_eq!(fs::read(&target).unwrap(), b"before");
        assert_eq!(names(directory.path()), ["out.y4m"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_the_file_has_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let plain = fs::metadata(&target).unwrap().permissions().mode();
        let mut output = Output::create(Some(&link)).unwrap();
        output.write_all(b"after").unwrap();
        output.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"after");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode(), plain);
    }

    #[test]
    fn a_directory_is_refused_as_a_target() {
        let directory = tempfile::tempdir().unwrap();
        let error = Output::create(Some(directory.path())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(Output::create(Some(&directory.path().join("none/out"))).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_and_devices_stay_devices() {
        use std::os::unix::fs::FileTypeExt;
        let full = Path::new("/dev/full");
        let mut output = Output::create(Some(full)).unwrap();
        let error = output.write_all(&[7; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(fs::metadata(full).unwrap().file_type().is_char_device());
    }
}
