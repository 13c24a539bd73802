//! Sees that the files which a compilation read are those that the search in the expanded text has
//! read before.
//!
//! Search and compilation are two runs of rustc. The text of a crate may differ between them.
//! Counterexample: `include!(concat!("p/", include!("/proc/sys/kernel/ns_last_pid"), ".rs"))` names
//! another file in each process, without a build script or a procedural macro. So rustc's list of
//! the files that the compilation read (the *dep-info*) is compared with the clock: each file, and
//! each symbolic link on the way to it, was last changed before the search began. A program can set
//! the time of a file's last modification. It cannot set the time of the inode's last change
//! (`ctime`), which is compared.

use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::dep_info;

/// More than the kernel's clock for files is behind.
pub(crate) const CLOCK_LAG: Duration = Duration::from_millis(25);

/// Number of symbolic links on one path, at which Linux gives up too.
const MOST_LINKS: usize = 40;

const NO_FILE: &str = "is no file on a disk";

/// Refuses a compilation that read a file which may have changed after `since`. `dep_info` is the
/// path and the text of rustc's list.
///
/// # Errors
/// The first such file, and why; or that the list is not understood.
pub(crate) fn refuse_changed((path, text): (&str, &str), since: SystemTime) -> Result<(), String> {
    let files = dep_info::files(path, text)
        .ok_or_else(|| format!("the list of files in {path} is not understood"))?;
    files.iter().try_for_each(|file| {
        settled(Path::new(file), since).map_err(|why| format!("the file {file}, which {why}"))
    })
}

/// Whether the file is one on a disk, and neither it nor a link to it has changed after `since`.
///
/// # Errors
/// The reason, as the end of a sentence about the file.
fn settled(file: &Path, since: SystemTime) -> Result<(), String> {
    let gone = |error: std::io::Error| format!("cannot be read: {error}");
    let mut links = 0;
    // The path up to a component that is no link, and the components behind.
    let mut at = std::env::current_dir().map_err(gone)?;
    let mut rest: Vec<PathBuf> = parts(file);
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        at.push(&part);
        // Links there lead each process to another file.
        if ["/proc", "/sys", "/dev"]
            .iter()
            .any(|special| at.starts_with(special))
        {
            return Err(NO_FILE.to_owned());
        }
        let found = fs::symlink_metadata(&at).map_err(gone)?;
        if !found.is_symlink() {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err("is behind too many links".to_owned());
        }
        before(&found, since)?;
        let target = fs::read_link(&at).map_err(gone)?;
        at.pop();
        rest.extend(parts(&target));
    }
    let found = fs::metadata(&at).map_err(gone)?;
    let length = fs::read(&at).map_err(gone)?.len();
    // A file that the kernel makes while it is read has another length, or none.
    if !found.is_file() || found.len() != length as u64 {
        return Err(NO_FILE.to_owned());
    }
    before(&found, since)
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let mut parts: Vec<PathBuf> = parts.map(|part| PathBuf::from(part.as_os_str())).collect();
    parts.reverse();
    parts
}

fn before(found: &Metadata, since: SystemTime) -> Result<(), String> {
    match changed(found) {
        Some(changed) if changed <= since => Ok(()),
        _ => Err("may have changed since the search began".to_owned()),
    }
}

/// When the inode was last changed.
#[cfg(unix)]
fn changed(found: &Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let seconds = Duration::from_secs(u64::try_from(found.ctime()).ok()?);
    // Some file systems keep whole seconds: any moment of this one, the last included.
    let part = match u64::try_from(found.ctime_nsec()).ok()? {
        0 => Duration::from_secs(1),
        part => Duration::from_nanos(part),
    };
    SystemTime::UNIX_EPOCH.checked_add(seconds + part)
}

/// When the file was last modified. This system keeps no other time.
#[cfg(not(unix))]
fn changed(found: &Metadata) -> Option<SystemTime> {
    found.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_that_changes_or_is_reached_by_a_new_link_is_refused() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let (old, link) = (directory.path().join("old.rs"), directory.path().join("link.rs"));
        fs::write(&old, "text").unwrap();
        std::thread::sleep(CLOCK_LAG);
        let since = SystemTime::now();
        std::thread::sleep(CLOCK_LAG);
        settled(&old, since).unwrap();
        settled(&directory.path().join("../").join(&old), since).unwrap();
        symlink(&old, &link).unwrap();
        assert!(settled(&link, since).unwrap_err().contains("changed"));
        settled(&link, SystemTime::now()).unwrap();
        // The time of the modification is set back; the inode's change is not.
        fs::write(&old, "evil").unwrap();
        let file = fs::File::options().write(true).open(&old).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(settled(&old, since).unwrap_err().contains("changed"));
        assert!(
            settled(&directory.path().join("none"), since)
                .unwrap_err()
                .contains("read")
        );
        assert!(settled(directory.path(), since).is_err());
        let link = link.to_str().unwrap();
        let list = format!("/t/a.d: {link}\n\n{link}:\n");
        let refused = refuse_changed(("/t/a.d", &list), since).unwrap_err();
        assert!(refused.starts_with("the file /"), "{refused}");
        refuse_changed(("/t/a.d", &list), SystemTime::now()).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_the_kernel_makes_is_refused() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link.rs");
        symlink("/proc/self", &link).unwrap();
        let later = SystemTime::now() + Duration::from_secs(3600);
        for file in [
            Path::new("/proc/sys/kernel/ns_last_pid"),
            Path::new("/proc/self/exe"),
            &link.join("exe"),
            Path::new("/dev/null"),
        ] {
            assert!(settled(file, later).is_err(), "{}", file.display());
        }
    }
}
