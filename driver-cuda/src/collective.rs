//! NCCL, found and loaded at run time: communicators of the devices of this process.
//!
//! The declarations are in [`ffi::nccl`].

mod live;
mod version;

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::ffi;
use super::ffi::nccl::{nccl_entry_points, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use super::function_table::{self, function_table};
use super::loader::{self, Status};
use super::named_file::{initial_variable, is_relative_path};
use super::process_end;
use super::{CudaDriver, stream};
use cuda_rt_driver::host_function;
use cuda_rt_driver::{
    Collective, Communicator, DriverError, DriverResult, ErrorCode, Number, Part, RawPeer, Reduction,
};

/// A file to load instead of the names below, if the process was started with this variable.
const FILE_VARIABLE: &str = "CUDA_RT_NCCL";
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

nccl_entry_points!(function_table [Nccl returns ncclResult_t]);
use table::Nccl;
use version::{check_version, version_of};

impl Status for ncclResult_t {
    const PROCESS_ENDS: Self = Self::ncclUnhandledCudaError;
    const FORKED: Self = Self::ncclUnhandledCudaError;
}

impl Nccl {
    /// The first library that can be loaded; the error says why it cannot be used, or why there is
    /// none.
    fn find() -> Result<Self, String> {
        let named = initial_variable(FILE_VARIABLE);
        if let Some(relative) = named.as_deref().filter(|name| is_relative_path(name)) {
            return Err(format!(
                "{FILE_VARIABLE} is the relative path `{relative}`: give an absolute path, or a bare name that the loader finds"
            ));
        }
        let names: Vec<&str> = named.as_deref().map_or(NAMES.to_vec(), |name| vec![name]);
        let (name, library) = function_table::load(&names).map_err(|why| {
            format!(
                "no NCCL library was found: tried {} ({why}); install it (`apt install libnccl2`, \
                 `pip install nvidia-nccl-cu12`), and put it on the library path or the full path of its file into {FILE_VARIABLE}",
                names.join(", ")
            )
        })?;
        Self::of(library)
            .map_err(|missing| format!("{name} has no {missing}: NCCL 2.16.5 or later is needed"))
    }

    /// `Ok` if the call of this name succeeded; the error contains NCCL's own words.
    fn check(&self, call: &'static str, status: ncclResult_t) -> DriverResult<()> {
        if status == ncclResult_t::ncclSuccess {
            return Ok(());
        }
        // Not `ncclGetLastError` as well: NCCL keeps that text in one buffer for all threads, and
        // writes a new text over one that another thread reads.
        // SAFETY: the function accepts any number, and returns null or a string of the library that
        // is never freed or changed.
        let detail = text(unsafe { self.ncclGetErrorString(status) });
        Err(DriverError::with_detail(call, ErrorCode::nccl(status.0), detail))
    }
}

/// NCCL's message in one line.
fn text(said: *const c_char) -> String {
    if said.is_null() {
        return String::new();
    }
    // SAFETY: the pointer is not null, so it is a NUL-terminated string of NCCL.
    let said = unsafe { CStr::from_ptr(said) }.to_string_lossy();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Calls `initialise`, NCCL's first initialisation, if the files that NCCL then reads are empty.
/// Later calls read no file, and are not looked at.
///
/// For each line `NAME=value` of these files NCCL calls C's `setenv`. Another thread that reads the
/// environment meanwhile, through `std::env` or C, reads freed memory; `std::env::set_var` is
/// `unsafe` for this reason. NCCL before 2.23 also writes beyond its line buffer where a name is
/// long. What a line means differs by version, so the lines are not read here.
fn initialised<T>(
    files_were_read: &mut bool,
    files: &[PathBuf],
    initialise: impl FnOnce() -> DriverResult<T>,
) -> DriverResult<T> {
    if !*files_were_read {
        refuse_settings(files)
            .map_err(|why| DriverError::with_detail("ncclCommInitAll", ErrorCode::OPERATING_SYSTEM, why))?;
    }
    // A call that fails may have read no file yet.
    let initialised = initialise()?;
    *files_were_read = true;
    Ok(initialised)
}

/// The files that NCCL reads at its first initialisation, or may read.
fn configuration_files(version: u32, named: Option<OsString>, homes: [Option<PathBuf>; 2]) -> Vec<PathBuf> {
    const FIRST_WITH_NAMED_FILE: u32 = 22300;
    let named = named.filter(|name| !name.is_empty()).map(PathBuf::from);
    // An older NCCL ignores the variable.
    let reads_named = named.is_some() && version >= FIRST_WITH_NAMED_FILE;
    let of_homes = homes
        .into_iter()
        .flatten()
        .map(|home| home.join(".nccl.conf"))
        .filter(|_| !reads_named);
    let always = PathBuf::from("/etc/nccl.conf");
    of_homes.chain(named).chain([always]).collect()
}

/// The user's home in the system's list of users, where NCCL looks for it, whatever `HOME` says.
#[cfg(unix)]
fn home_of_the_user() -> Option<PathBuf> {
    // SAFETY: the call has no arguments and always succeeds.
    let user = unsafe { libc::getuid() };
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    let mut buffer = vec![0; 1 << 16];
    // SAFETY: the pointers are to a live entry, a live pointer and a buffer of the length given.
    unsafe {
        libc::getpwuid_r(
            user,
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    if found.is_null() {
        return None;
    }
    // SAFETY: where `found` is not null, the call has filled `entry`.
    let entry = unsafe { entry.assume_init() };
    // SAFETY: the directory of a filled entry is a string in `buffer`, which is live.
    let home = unsafe { CStr::from_ptr(entry.pw_dir) };
    Some(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(home.to_bytes()).into())
}

/// NCCL is for Linux only.
#[cfg(not(unix))]
fn home_of_the_user() -> Option<PathBuf> {
    None
}

/// Refuses files that may have settings: all but empty ones.
fn refuse_settings(files: &[PathBuf]) -> Result<(), String> {
    for file in files {
        let why = match std::fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => format!("cannot be looked at ({error})"),
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => continue,
            Ok(_) if file == Path::new("/dev/null") => continue,
            Ok(_) => "is not empty".to_owned(),
        };
        return Err(format!(
            "NCCL's configuration file {} {why}: NCCL would change the environment of a process that other threads may read; \
             set its variables before the process starts, and empty the file",
            file.display()
        ));
    }
    Ok(())
}

/// The driver of the first device, and the ordinals of all. `None` without a device, and if one of
/// them is not open: NCCL would take a primary context that this process does not hold.
fn first_and_ordinals<T>(peers: &[RawPeer], opened: impl Fn(u64) -> Option<T>) -> Option<(T, Vec<c_int>)> {
    let drivers: Vec<T> = peers.iter().map(|peer| opened(peer.0)).collect::<Option<_>>()?;
    let ordinals = peers.iter().map(|peer| c_int::try_from(peer.0).ok());
    Some((drivers.into_iter().next()?, ordinals.collect::<Option<_>>()?))
}

fn library() -> DriverResult<&'static Nccl> {
    static LIBRARY: OnceLock<Result<Nccl, String>> = OnceLock::new();
    LIBRARY
        .get_or_init(Nccl::find)
        .as_ref()
        .map_err(|why| DriverError::with_detail("dlopen", ErrorCode::OPERATING_SYSTEM, why.as_str()))
}

/// Version of the installed NCCL in NCCL's own counting: 22809 for 2.28.9.
///
/// # Errors
/// No NCCL is installed, or the installed one cannot be used. The message says what to do.
pub fn nccl_version() -> DriverResult<u32> {
    version_of(library()?)
}

/// One rank of an NCCL communicator.
#[derive(Clone, Copy, Debug)]
struct Rank(ncclComm_t);

// SAFETY: a communicator may be used from any thread, by one thread at a time. The lock around the
// ranks ensures that.
unsafe impl Send for Rank {}

/// GPUs of this process, as ranks of NCCL.
pub(super) struct NcclCommunicator {
    nccl: &'static Nccl,
    /// The driver of any of the devices: NCCL finds the rank's own device through the communicator.
    driver: Arc<CudaDriver>,
    /// # Invariants
    /// NCCL-1. Each communicator is live and of one rank; they are ordered by rank. The list is
    /// empty after an abort. Calls on a communicator are made under this lock.
    ranks: Mutex<Vec<Rank>>,
    count: usize,
}

impl fmt::Debug for NcclCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NcclCommunicator")
            .field("ranks", &self.count)
            .finish_non_exhaustive()
    }
}

impl NcclCommunicator {
    pub(super) fn new(peers: &[RawPeer]) -> DriverResult<Self> {
        const CALL: &str = "ncclCommInitAll";
        host_function::check(CALL)?;
        loader::check(CALL)?;
        let nccl = library()?;
        let invalid = || DriverError::new(CALL, ErrorCode::INVALID_DEVICE);
        let (driver, ordinals) = first_and_ordinals(peers, CudaDriver::opened).ok_or_else(invalid)?;
        let count = c_int::try_from(ordinals.len()).map_err(|_| invalid())?;
        let mut made = vec![ptr::null_mut(); ordinals.len()];
        {
            let _entered = driver.context.enter()?;
            static FILES_WERE_READ: Mutex<bool> = Mutex::new(false);
            let mut were_read = FILES_WERE_READ.lock().unwrap_or_else(PoisonError::into_inner);
            let homes = [home_of_the_user(), std::env::var_os("HOME").map(PathBuf::from)];
            let named = std::env::var_os("NCCL_CONF_FILE");
            let version = version_of(nccl)?;
            check_version(version)?;
            let files = configuration_files(version, named, homes);
            initialised(&mut were_read, &files, || {
                // SAFETY: both arrays are of `count` elements.
                let status = unsafe { nccl.ncclCommInitAll(made.as_mut_ptr(), count, ordinals.as_ptr()) };
                nccl.check(CALL, status)
            })?;
            process_end::shut_at_exit();
        }
        Ok(Self {
            nccl,
            driver,
            count: made.len(),
            ranks: Mutex::new(made.into_iter().map(Rank).collect()),
        })
    }

    /// The ranks. A thread that panicked under the lock (no thread should) left them unchanged.
    fn lock(&self) -> MutexGuard<'_, Vec<Rank>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one rank's call, inside a group.
    ///
    /// # Safety
    /// As [`Communicator::enqueue`], for this rank.
    unsafe fn enqueue_rank(
        &self,
        Rank(comm): Rank,
        collective: Collective,
        number: Number,
        count: usize,
        part: &Part,
    ) -> DriverResult<()> {
        let (nccl, stream) = (self.nccl, stream::handle(part.stream));
        let send = ptr::with_exposed_provenance::<c_void>(part.send.0 as usize);
        let receive = ptr::with_exposed_provenance_mut::<c_void>(part.receive.0 as usize);
        let number = data_type(number);
        let (call, status) = match collective {
            Collective::AllReduce(by) => ("ncclAllReduce", {
                // SAFETY: by this function's contract the ranges and the stream are live and belong
                // to the rank; the communicator is live (NCCL-1).
                unsafe { nccl.ncclAllReduce(send, receive, count, number, operation(by), comm, stream) }
            }),
            Collective::ReduceScatter(by) => ("ncclReduceScatter", {
                // SAFETY: as above.
                unsafe { nccl.ncclReduceScatter(send, receive, count, number, operation(by), comm, stream) }
            }),
            Collective::AllGather => ("ncclAllGather", {
                // SAFETY: as above.
                unsafe { nccl.ncclAllGather(send, receive, count, number, comm, stream) }
            }),
            Collective::Broadcast { root } => ("ncclBroadcast", {
                let root = c_int::try_from(root).unwrap_or(-1);
                // SAFETY: as above; a rank that sends nothing passes its own memory.
                unsafe { nccl.ncclBroadcast(send, receive, count, number, root, comm, stream) }
            }),
        };
        nccl.check(call, status)
    }
}

fn data_type(number: Number) -> ncclDataType_t {
    match number {
        Number::I8 => ncclDataType_t::ncclInt8,
        Number::U8 => ncclDataType_t::ncclUint8,
        Number::I32 => ncclDataType_t::ncclInt32,
        Number::U32 => ncclDataType_t::ncclUint32,
        Number::I64 => ncclDataType_t::ncclInt64,
        Number::U64 => ncclDataType_t::ncclUint64,
        Number::F32 => ncclDataType_t::ncclFloat32,
        Number::F64 => ncclDataType_t::ncclFloat64,
    }
}

fn operation(by: Reduction) -> ncclRedOp_t {
    match by {
        Reduction::Sum => ncclRedOp_t::ncclSum,
        Reduction::Product => ncclRedOp_t::ncclProd,
        Reduction::Min => ncclRedOp_t::ncclMin,
        Reduction::Max => ncclRedOp_t::ncclMax,
    }
}

// SAFETY: NCCL puts each rank's kernel on the stream that it is given. Another rank reads and
// writes this rank's memory in its own kernel, after this rank's kernel has told it the address.
unsafe impl Communicator for NcclCommunicator {
    unsafe fn enqueue(
        &self,
        collective: Collective,
        number: Number,
        count: usize,
        parts: &[Part],
    ) -> DriverResult<()> {
        host_function::check("ncclGroupStart")?;
        let ranks = self.live_ranks("ncclGroupStart")?;
        let _entered = self.driver.context.enter()?;
        // SAFETY: the call has no arguments; the group is ended below, on this thread.
        let begun = unsafe { self.nccl.ncclGroupStart() };
        self.nccl.check("ncclGroupStart", begun)?;
        let mut all = ranks.iter().zip(parts);
        // SAFETY: this function's contract, for each rank and its part.
        let made = all.try_for_each(|(rank, part)| unsafe {
            self.enqueue_rank(*rank, collective, number, count, part)
        });
        // SAFETY: the group was begun above, on this thread.
        let ended = unsafe { self.nccl.ncclGroupEnd() };
        let ended = self.nccl.check("ncclGroupEnd", ended);
        // The first collective may set up more of NCCL.
        static FIRST: Once = Once::new();
        FIRST.call_once(process_end::shut_at_exit);
        // The first error of the two says what went wrong.
        made.and(ended)
    }

    fn status(&self) -> DriverResult<()> {
        const CALL: &str = "ncclCommGetAsyncError";
        host_function::check(CALL)?;
        let ranks = self.live_ranks(CALL)?;
        for Rank(comm) in &*ranks {
            let mut found = ncclResult_t::ncclSuccess;
            // SAFETY: NCCL-1, and the pointer is to a live number.
            self.nccl.check(CALL, unsafe {
                self.nccl.ncclCommGetAsyncError(*comm, &mut found)
            })?;
            self.nccl.check(CALL, found)?;
        }
        Ok(())
    }

    fn abort(&self) {
        if loader::is_child() {
            // The ranks are the parent's.
            return;
        }
        let ranks = std::mem::take(&mut *self.lock());
        if host_function::is_inside() {
            // The ranks leak. NCCL would call CUDA, which a host function must not.
            return;
        }
        for Rank(comm) in ranks {
            // SAFETY: the communicator is live (NCCL-1), and the list no longer has it. An error is
            // ignored: nothing more can be done.
            unsafe { self.nccl.ncclCommAbort(comm) };
        }
    }
}

impl Drop for NcclCommunicator {
    /// Waits for pending collectives, unless one has failed.
    fn drop(&mut self) {
        if self.status().is_err() {
            return self.abort();
        }
        let entered = self.driver.context.enter();
        for Rank(comm) in std::mem::take(&mut *self.lock()) {
            // SAFETY: the communicator is live (NCCL-1), and is not used again. An error leaks the
            // rank.
            unsafe { self.nccl.ncclCommDestroy(comm) };
        }
        drop(entered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where NCCL is installed, it can be loaded and asked without a GPU. Elsewhere the error says
    /// what to install.
    #[test]
    fn the_library_is_used_or_the_error_says_what_to_install() {
        match library() {
            Ok(nccl) => {
                let version = nccl_version().unwrap();
                assert!(version >= 21_000, "{version}");
                let error = nccl.check("ncclCommInitAll", ncclResult_t(5)).unwrap_err();
                assert_eq!(error.code(), ErrorCode::NCCL_INVALID_USAGE);
                let text = error.to_string();
                assert!(
                    text.starts_with("ncclCommInitAll failed: ncclInvalidUsage (5): "),
                    "{text}"
                );
                assert!(text.contains("invalid usage"), "{text}");
                eprintln!("NCCL {version}");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    NAMES.iter().all(|name| text.contains(name)) || text.contains(" has no "),
                    "{text}"
                );
                assert!(
                    text.contains("libnccl2") && text.contains(FILE_VARIABLE),
                    "{text}"
                );
                eprintln!("SKIPPED: {error}");
            }
        }
    }
}

#[cfg(test)]
mod initial_environment {
    use std::path::PathBuf;

    use cuda_rt_driver::{DriverError, ErrorCode};

    use super::{configuration_files, first_and_ordinals, home_of_the_user, initialised, refuse_settings};

    /// NCCL is given open devices only.
    #[test]
    fn each_device_of_a_communicator_must_be_open() {
        let opened = |ordinal| [0, 1, 1 << 32].contains(&ordinal).then_some(ordinal);
        let made = |peers: &[u64]| {
            let peers: Vec<_> = peers.iter().copied().map(cuda_rt_driver::RawPeer).collect();
            first_and_ordinals(&peers, opened)
        };
        assert_eq!(made(&[1, 0]), Some((1, vec![1, 0])));
        for peers in [&[][..], &[2], &[2, 0], &[0, 2], &[0, 1, 2], &[0, 1 << 32]] {
            assert_eq!(made(peers), None, "{peers:?}");
        }
    }

    #[test]
    fn configuration_files_must_be_empty() {
        let folder = std::env::temp_dir().join(format!("cuda-rt-nccl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let passes = [
            file("empty", b""),
            folder.join("none"),
            PathBuf::from("/dev/null"),
        ];
        // NCCL before 2.26 knows no comments, and sets a variable called `#A`.
        let refused = [
            file("sets", b"NCCL_DEBUG=INFO\n"),
            file("comment", b"#A=1\n"),
            file("not_utf8", b"\xff\nA=1\n"),
            folder.clone(),
        ];
        let (passed, refusals) = (
            refuse_settings(&passes),
            refused.clone().map(|file| refuse_settings(&[file])),
        );
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(passed, Ok(()));
        for (file, refusal) in refused.iter().zip(refusals) {
            let why = refusal.unwrap_err();
            assert!(why.contains(&format!("{} is not empty", file.display())), "{why}");
        }
    }

    #[test]
    fn files_of_both_homes_count_unless_nccl_reads_a_named_one() {
        let homes = || [Some(PathBuf::from("/a")), Some(PathBuf::from("/b"))];
        let both = ["/a/.nccl.conf", "/b/.nccl.conf", "/etc/nccl.conf"].map(PathBuf::from);
        assert_eq!(configuration_files(22808, None, homes()), both);
        assert_eq!(configuration_files(22808, Some("".into()), homes()), both);
        let named = || Some("/dev/null".into());
        let one = ["/dev/null", "/etc/nccl.conf"].map(PathBuf::from);
        assert_eq!(configuration_files(22808, named(), homes()), one);
        let old = ["/a/.nccl.conf", "/b/.nccl.conf", "/dev/null", "/etc/nccl.conf"].map(PathBuf::from);
        assert_eq!(configuration_files(21803, named(), homes()), old);
    }

    /// A first initialisation that fails may have read no file: the next one looks at them again.
    #[test]
    fn files_are_looked_at_until_an_initialisation_succeeds() {
        let refused = || DriverError::new("ncclCommInitAll", ErrorCode::INVALID_DEVICE);
        let folder = std::env::temp_dir().join(format!("cuda-rt-nccl-again-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("settings");
        let (mut were_read, files) = (false, [file.clone()]);
        let failed = initialised(&mut were_read, &files, || Err::<(), _>(refused()));
        assert_eq!(failed, Err(refused()));
        std::fs::write(&file, "A=1\n").unwrap();
        let second = initialised(&mut were_read, &files, || Ok(()));
        std::fs::write(&file, "").unwrap();
        let third = initialised(&mut were_read, &files, || Ok(()));
        std::fs::write(&file, "A=1\n").unwrap();
        let later = initialised(&mut were_read, &files, || Ok(()));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(second.unwrap_err().to_string().contains("is not empty"));
        assert_eq!((third, later), (Ok(()), Ok(())));
    }

    #[test]
    fn the_user_has_a_home_whatever_the_environment_says() {
        assert!(home_of_the_user().is_some_and(|home| home.is_absolute()));
    }
}
