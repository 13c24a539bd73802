//! Reads and writes at offsets of a file, which several threads make at once: `pread` and `pwrite`,
//! or their like on Windows.

use std::fs::File;
use std::io::{self, Read};

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Reads until `bytes` is full or the file ends, and adds the number of bytes read to `offset`.
///
/// # Errors
/// Errors of the file. `offset` is then the place of the first byte that was not read.
pub(crate) fn fill_at(file: &File, bytes: &mut [u8], offset: &mut u64) -> io::Result<usize> {
    let mut source = AtOffset {
        file,
        offset: *offset,
    };
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                *offset = source.offset;
                return Err(error);
            }
        }
    }
    *offset = source.offset;
    Ok(filled)
}

/// Writes all of `bytes`, and adds their number to `offset`.
///
/// # Errors
/// Errors of the file. `offset` is then the place of the first byte that was not written.
pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], offset: &mut u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_at(file, bytes, *offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *offset += written as u64;
                bytes = &bytes[written..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A file from an offset on. Several threads may read the same file, each from its own offset.
#[derive(Debug)]
pub(crate) struct AtOffset<'a> {
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
}

impl Read for AtOffset<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn offsets_count_what_was_read_and_written() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut offset = 3;
        write_all_at(&file, b"abc", &mut offset).unwrap();
        assert_eq!(offset, 6);
        let (mut bytes, mut offset) = ([0; 8], 1);
        assert_eq!(fill_at(&file, &mut bytes, &mut offset).unwrap(), 8);
        assert_eq!((&bytes, offset), (b"12abc678", 9));
        assert_eq!(fill_at(&file, &mut bytes, &mut offset).unwrap(), 1);
        assert_eq!((bytes[0], offset), (b'9', 10));
        assert_eq!(fill_at(&file, &mut bytes, &mut offset).unwrap(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_at_its_offset() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut offset = 7;
        let error = write_all_at(&full, b"abc", &mut offset).unwrap_err();
        assert_eq!((error.kind(), offset), (io::ErrorKind::StorageFull, 7));
    }
}
