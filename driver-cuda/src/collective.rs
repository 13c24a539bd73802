//! NCCL, found and loaded at run time: communicators of the devices of this process.
//!
//! The declarations are in [`ffi::nccl`].

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::ffi;
use super::ffi::nccl::{nccl_entry_points, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use super::function_table::{self, function_table};
use super::{CudaDriver, stream};
use cuda_rt_driver::{
    Collective, Communicator, DriverError, DriverResult, ErrorCode, Number, Part, RawPeer, Reduction,
};

/// A file to load instead of the names below, if the process was started with this variable.
const FILE_VARIABLE: &str = "CUDA_RT_NCCL";
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

nccl_entry_points!(function_table [Nccl returns ncclResult_t]);

impl Nccl {
    /// The first library that can be loaded; the error says why it cannot be used, or why there is
    /// none.
    fn find() -> Result<Self, String> {
        refuse_variables_from_files(&configuration_files())?;
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
                 `pip install nvidia-nccl-cu12`), and put it on the library path or its file's name into {FILE_VARIABLE}",
                names.join(", ")
            )
        })?;
        Self::of(library).map_err(|missing| format!("{name} has no {missing}: NCCL 2.13 or later is needed"))
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
        let detail = text(unsafe { (self.ncclGetErrorString)(status) });
        Err(DriverError::with_detail(call, ErrorCode::nccl(status.0), detail))
    }
}

/// Whether the loader would look for the file from the current directory, which the process changes
/// at will.
fn is_relative_path(name: &str) -> bool {
    name.contains('/') && !name.starts_with('/')
}

/// The value that an environment variable had when the process was started.
///
/// A library that is loaded runs code. Whoever starts the process may choose it, as with
/// `LD_PRELOAD`; the process itself may not, for `std::env::set_var` is safe before edition 2024.
fn initial_variable(name: &str) -> Option<String> {
    // On Linux this file holds the initial environment, and `setenv` leaves it as it is. NCCL is
    // for Linux only.
    value_of(name, &std::fs::read("/proc/self/environ").ok()?)
}

/// The value of a variable in a list of `NAME=value`, each of which ends in a zero byte.
fn value_of(name: &str, environment: &[u8]) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
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

/// The files that NCCL reads at its first call.
fn configuration_files() -> Vec<PathBuf> {
    let named = std::env::var_os("NCCL_CONF_FILE").filter(|name| !name.is_empty());
    let own = || std::env::home_dir().map(|home| home.join(".nccl.conf"));
    let chosen = named.map(PathBuf::from).or_else(own);
    chosen
        .into_iter()
        .chain([PathBuf::from("/etc/nccl.conf")])
        .collect()
}

/// Refuses files that set variables.
///
/// For each line `NAME=value` NCCL calls C's `setenv`. Another thread that reads the environment
/// meanwhile, through `std::env` or C, reads freed memory; `std::env::set_var` is `unsafe` for this
/// reason.
fn refuse_variables_from_files(files: &[PathBuf]) -> Result<(), String> {
    for file in files {
        let Ok(text) = std::fs::read_to_string(file) else {
            continue;
        };
        let sets = |line: &str| line.contains('=') && !line.trim_start().starts_with('#');
        if let Some(line) = text.lines().find(|line| sets(line)) {
            return Err(format!(
                "{} sets variables (`{}`): NCCL would change the environment of a process that other threads may read; \
                 set them before the process starts, and empty the file or name another (`NCCL_CONF_FILE=/dev/null`)",
                file.display(),
                line.trim()
            ));
        }
    }
    Ok(())
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
    let nccl = library()?;
    let mut version: c_int = 0;
    // SAFETY: the pointer is to a live int.
    let status = unsafe { (nccl.ncclGetVersion)(&mut version) };
    nccl.check("ncclGetVersion", status)?;
    Ok(version.unsigned_abs())
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
        let nccl = library()?;
        let invalid = || DriverError::new(CALL, ErrorCode::INVALID_DEVICE);
        let driver = peers
            .first()
            .and_then(|peer| CudaDriver::opened(peer.0))
            .ok_or_else(invalid)?;
        let ordinals = peers.iter().map(|peer| c_int::try_from(peer.0));
        let ordinals: Vec<c_int> = ordinals.collect::<Result<_, _>>().map_err(|_| invalid())?;
        let count = c_int::try_from(ordinals.len()).map_err(|_| invalid())?;
        let mut made = vec![ptr::null_mut(); ordinals.len()];
        {
            let _entered = driver.context.enter()?;
            // SAFETY: both arrays are of `count` elements.
            let status = unsafe { (nccl.ncclCommInitAll)(made.as_mut_ptr(), count, ordinals.as_ptr()) };
            nccl.check(CALL, status)?;
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

    fn check_live(&self, ranks: &[Rank], call: &'static str) -> DriverResult<()> {
        if ranks.len() == self.count {
            return Ok(());
        }
        Err(DriverError::with_detail(
            call,
            ErrorCode::NCCL_INVALID_USAGE,
            "the communicator was aborted",
        ))
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
                unsafe { (nccl.ncclAllReduce)(send, receive, count, number, operation(by), comm, stream) }
            }),
            Collective::ReduceScatter(by) => ("ncclReduceScatter", {
                // SAFETY: as above.
                unsafe { (nccl.ncclReduceScatter)(send, receive, count, number, operation(by), comm, stream) }
            }),
            Collective::AllGather => ("ncclAllGather", {
                // SAFETY: as above.
                unsafe { (nccl.ncclAllGather)(send, receive, count, number, comm, stream) }
            }),
            Collective::Broadcast { root } => ("ncclBroadcast", {
                let root = c_int::try_from(root).unwrap_or(-1);
                // SAFETY: as above; a rank that sends nothing passes its own memory.
                unsafe { (nccl.ncclBroadcast)(send, receive, count, number, root, comm, stream) }
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
        let ranks = self.lock();
        self.check_live(&ranks, "ncclGroupStart")?;
        let _entered = self.driver.context.enter()?;
        // SAFETY: the call has no arguments; the group is ended below, on this thread.
        let begun = unsafe { (self.nccl.ncclGroupStart)() };
        self.nccl.check("ncclGroupStart", begun)?;
        let mut all = ranks.iter().zip(parts);
        // SAFETY: this function's contract, for each rank and its part.
        let made = all.try_for_each(|(rank, part)| unsafe {
            self.enqueue_rank(*rank, collective, number, count, part)
        });
        // SAFETY: the group was begun above, on this thread.
        let ended = unsafe { (self.nccl.ncclGroupEnd)() };
        let ended = self.nccl.check("ncclGroupEnd", ended);
        // The first error of the two says what went wrong.
        made.and(ended)
    }

    fn status(&self) -> DriverResult<()> {
        const CALL: &str = "ncclCommGetAsyncError";
        let ranks = self.lock();
        self.check_live(&ranks, CALL)?;
        for Rank(comm) in &*ranks {
            let mut found = ncclResult_t::ncclSuccess;
            // SAFETY: NCCL-1, and the pointer is to a live number.
            self.nccl.check(CALL, unsafe {
                (self.nccl.ncclCommGetAsyncError)(*comm, &mut found)
            })?;
            self.nccl.check(CALL, found)?;
        }
        Ok(())
    }

    fn abort(&self) {
        let ranks = std::mem::take(&mut *self.lock());
        for Rank(comm) in ranks {
            // SAFETY: the communicator is live (NCCL-1), and the list no longer has it. An error is
            // ignored: nothing more can be done.
            unsafe { (self.nccl.ncclCommAbort)(comm) };
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
            unsafe { (self.nccl.ncclCommDestroy)(comm) };
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
                assert!(version >= 21_300, "{version}");
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
    use super::{initial_variable, is_relative_path, refuse_variables_from_files, value_of};

    #[test]
    fn files_that_set_variables_are_refused() {
        let folder = std::env::temp_dir().join(format!("cuda-rt-nccl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let comments = file("comments", "# NCCL_DEBUG=INFO\n\n");
        let sets = file("sets", "# ours\nNCCL_DEBUG=INFO\n");
        let none = folder.join("none");
        assert_eq!(refuse_variables_from_files(&[comments.clone(), none]), Ok(()));
        let refused = refuse_variables_from_files(&[comments, sets.clone()]).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            refused.starts_with(&format!("{} sets variables (`NCCL_DEBUG=INFO`)", sets.display())),
            "{refused}"
        );
    }

    #[test]
    fn a_path_from_the_current_directory_is_told_from_others() {
        let names = [
            "lib/libnccl.so.2",
            "./libnccl.so",
            "/lib/libnccl.so.2",
            "libnccl.so.2",
        ];
        assert_eq!(names.map(is_relative_path), [true, true, false, false]);
    }

    #[test]
    fn a_value_is_that_of_the_whole_name() {
        let environment = b"CUDA_RT_NCCL_OLD=a\0CUDA_RT_NCCL=/b=c\0";
        assert_eq!(value_of("CUDA_RT_NCCL", environment).as_deref(), Some("/b=c"));
        assert_eq!(value_of("CUDA_RT", environment), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_variable_that_the_process_sets_itself_is_not_read() {
        const NAME: &str = "CUDA_RT_TEST_OF_THE_INITIAL_ENVIRONMENT";
        // SAFETY: no other thread of this test reads or writes the environment through C.
        unsafe { std::env::set_var(NAME, "set") };
        assert_eq!(std::env::var(NAME).as_deref(), Ok("set"));
        assert_eq!(initial_variable(NAME), None);
    }
}
