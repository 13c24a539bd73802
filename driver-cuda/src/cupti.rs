//! Times measured by the engines themselves, from CUPTI's activity records.
//!
//! CUPTI traces the whole process, and passes its records to one pair of callbacks. There is
//! therefore one trace at a time, and records of other contexts are left out. CUPTI reads its clock
//! for each record; it enqueues nothing.
//!
//! The library is found and loaded at run time ([`NAMES`]), and is called only when a trace begins.
//! There is no trace if the library is missing, if its version is not in [`VERSIONS`], or if a
//! profiler uses it. This is not an error; [`why_none`] returns the reason.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::context::Context;
use super::ffi::cupti::{
    CUpti_Activity, CUpti_ActivityFlag, CUpti_ActivityKind, CUpti_ActivityMemcpyKind, CUptiResult, Launch,
    Transfer, cupti_entry_points,
};
use super::ffi::{self, CUcontext};
use super::function_table::{self, function_table};
use super::loader::{self, Status};
use super::process_end;
use super::stream;
use cuda_rt_driver::Kind;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{RawStream, Trace, Traced};

/// Names of the library, in the order of trying. The last is the path that the toolkit's installer
/// uses; the loader does not search there.
const NAMES: [&str; 4] = [
    "libcupti.so.13",
    "libcupti.so.12",
    "libcupti.so",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
];

/// Versions, as `cuptiGetVersion` returns them, whose records begin as [`Transfer`] and [`Launch`]
/// declare: CUDA 11.8 to 12.9, and 13.0 to 13.5 with their updates. Checked in the headers of 12.9
/// and 13.5, which declare the layouts of all earlier releases.
///
/// A library writes the newest layout it knows, whatever its caller was built for. So far each
/// layout has only added fields to the end of the one before. NVIDIA does not promise this for the
/// next layout, so unknown versions are not read.
const VERSIONS: [RangeInclusive<u32>; 2] = [18..=28, 130_000..=130_599];

cupti_entry_points!(function_table [Cupti returns CUptiResult]);
use table::Cupti;

impl Status for CUptiResult {
    const PROCESS_ENDS: Self = Self::CUPTI_ERROR_NOT_INITIALIZED;
    const FORKED: Self = Self::CUPTI_ERROR_NOT_INITIALIZED;
}

impl Cupti {
    /// The first library that can be loaded; the error says why it cannot be used, or why there is
    /// none.
    fn find() -> Result<Self, String> {
        let (name, library) = function_table::load(&NAMES)
            .map_err(|why| format!("CUPTI was not found: tried {} ({why})", NAMES.join(", ")))?;
        let cupti = Self::of(library).map_err(|missing| format!("{name} has no {missing}"))?;
        let mut version = 0;
        // SAFETY: the pointer is to a live u32.
        let status = unsafe { cupti.cuptiGetVersion(&mut version) };
        if status != CUptiResult::CUPTI_SUCCESS {
            return Err(format!("{name} does not say its version (status {})", status.0));
        }
        if !is_known(version) {
            return Err(format!(
                "{name} has version {version}; only the records of versions {VERSIONS:?} are known"
            ));
        }
        Ok(cupti)
    }
}

fn is_known(version: u32) -> bool {
    VERSIONS.iter().any(|known| known.contains(&version))
}

const MEMCPY: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY;
const MEMSET: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMSET;
const KERNEL: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
const KINDS: [CUpti_ActivityKind; 3] = [KERNEL, MEMCPY, MEMSET];

/// A record, copied from CUPTI's buffer.
#[derive(Debug)]
struct Activity {
    kind: Kind,
    /// The name of the kernel's entry; empty for other records.
    name: String,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    context: u32,
    stream: u32,
    correlation: u32,
}

/// Whether a trace is in progress.
static TRACING: AtomicBool = AtomicBool::new(false);
static ACTIVITIES: Mutex<Vec<Activity>> = Mutex::new(Vec::new());

fn activities() -> MutexGuard<'static, Vec<Activity>> {
    // The list is only pushed to and taken, so a panic leaves it whole.
    ACTIVITIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn library() -> Result<&'static Cupti, &'static str> {
    static LIBRARY: OnceLock<Result<Cupti, String>> = OnceLock::new();
    LIBRARY.get_or_init(Cupti::find).as_ref().map_err(String::as_str)
}

static WHY_NONE: Mutex<Option<String>> = Mutex::new(None);

/// Why this process's last attempt to begin a trace with CUPTI failed. `None` if it succeeded, or
/// if no trace was ever asked for.
pub fn why_none() -> Option<String> {
    WHY_NONE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Addresses of the buffers that CUPTI has.
///
/// # Invariants
/// CUPTI-BUFFER-1. Each address is of memory that [`request_buffer`] allocated with the layout
/// [`BUFFER`], and that nothing has freed.
///
/// Counterexample to freeing what CUPTI returns: CUPTI has one pair of callbacks for the process,
/// and another library registers its own pair. A buffer that this library gave CUPTI then comes
/// back here.
static GIVEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn given() -> MutexGuard<'static, BTreeSet<usize>> {
    // The set is only inserted into and removed from, so a panic leaves it whole.
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("size and alignment are valid"),
};

/// Gives CUPTI a buffer to fill. Without memory it gives no buffer, and CUPTI drops records.
///
/// # Safety
/// The pointers are to live values of CUPTI.
unsafe extern "C" fn request_buffer(buffer: *mut *mut u8, bytes: *mut usize, most_records: *mut usize) {
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(BUFFER) };
    if !memory.is_null() {
        given().insert(memory.addr());
    }
    // SAFETY: by this function's contract the pointer is to a live value.
    unsafe { buffer.write(memory) };
    // SAFETY: as above.
    unsafe { bytes.write(if memory.is_null() { 0 } else { BUFFER.size() }) };
    // SAFETY: as above. 0 means as many records as fit.
    unsafe { most_records.write(0) };
}

/// Reads the records of a buffer that CUPTI has finished, and frees the buffer. A buffer that
/// [`request_buffer`] did not give is another library's: it is neither read nor freed.
///
/// # Safety
/// If `buffer` came from [`request_buffer`], CUPTI wrote `valid` bytes of records to it, and uses
/// it no more.
unsafe extern "C" fn complete_buffer(_: CUcontext, _: u32, buffer: *mut u8, _size: usize, valid: usize) {
    if !given().remove(&buffer.addr()) {
        return;
    }
    if let Ok(cupti) = library()
        && valid > 0
    {
        let mut found = activities();
        let mut record: *mut CUpti_Activity = ptr::null_mut();
        loop {
            // SAFETY: the buffer came from `request_buffer` (CUPTI-BUFFER-1), so by this function's
            // contract it holds `valid` bytes of records. `record` is the last record found in it,
            // or null at first.
            let status = unsafe { cupti.cuptiActivityGetNextRecord(buffer, valid, &mut record) };
            if status != CUptiResult::CUPTI_SUCCESS || record.is_null() {
                break;
            }
            // SAFETY: CUPTI just returned this record.
            let activity = unsafe { read(record) };
            found.extend(activity.filter(|_| TRACING.load(Ordering::Relaxed)));
        }
    }
    // SAFETY: the buffer was allocated with this layout, and nothing has freed it (CUPTI-BUFFER-1).
    // Its address is no longer in the set. By this function's contract CUPTI uses it no more.
    unsafe { dealloc(buffer, BUFFER) };
}

/// The data kept of a record. `None` for kinds that were not asked for, and for work without an end
/// time.
///
/// # Safety
/// `record` is a live record of CUPTI.
unsafe fn read(record: *const CUpti_Activity) -> Option<Activity> {
    // SAFETY: by this function's contract the record is live; every record begins with its kind.
    let kind = unsafe { &raw const (*record).kind };
    // SAFETY: as above.
    let kind = unsafe { kind.read() };
    let activity = match kind {
        MEMCPY | MEMSET => {
            // SAFETY: records of these kinds begin with a `Transfer`, in every version.
            let transfer = unsafe { record.cast::<Transfer>().read_unaligned() };
            Activity {
                kind: match (kind, CUpti_ActivityMemcpyKind(transfer.way[0].into())) {
                    (MEMSET, _) => Kind::Fill,
                    (_, CUpti_ActivityMemcpyKind::CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) => Kind::CopyToDevice,
                    (_, CUpti_ActivityMemcpyKind::CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) => Kind::CopyToHost,
                    _ => Kind::Copy,
                },
                name: String::new(),
                start_ns: transfer.start_ns,
                end_ns: transfer.end_ns,
                bytes: transfer.bytes,
                context: transfer.context,
                stream: transfer.stream,
                correlation: transfer.correlation,
            }
        }
        KERNEL => {
            // SAFETY: records of this kind begin with a `Launch`, in every version since 9.0.
            let launch = unsafe { record.cast::<Launch>().read_unaligned() };
            let name = launch.name;
            let name = if name.is_null() {
                String::new()
            } else {
                // SAFETY: the name is not null, so it is a NUL-terminated string that lives as long
                // as the record.
                unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
            };
            Activity {
                kind: Kind::Kernel,
                name,
                start_ns: launch.start_ns,
                end_ns: launch.end_ns,
                bytes: 0,
                context: launch.context,
                stream: launch.stream,
                correlation: launch.correlation,
            }
        }
        _ => return None,
    };
    // CUPTI writes 0 where it could not measure the time.
    (activity.start_ns > 0 && activity.end_ns >= activity.start_ns).then_some(activity)
}

fn told(call: &str, status: CUptiResult) -> Result<(), String> {
    match status {
        CUptiResult::CUPTI_SUCCESS => Ok(()),
        CUptiResult(status) => Err(format!("{call} says {status} (CUptiResult)")),
    }
}

/// A trace of one context.
pub(super) struct CuptiTrace {
    cupti: &'static Cupti,
    /// The handle of a context that is never released (CONTEXT-1 of [`Context`]). It is stored as a
    /// number so that this value is `Send`.
    context: u64,
    /// CUPTI's time when the trace began.
    zero_ns: u64,
}

impl std::fmt::Debug for CuptiTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuptiTrace")
            .field("zero_ns", &self.zero_ns)
            .finish_non_exhaustive()
    }
}

impl CuptiTrace {
    /// Begins a trace. Returns `None` without CUPTI, or while this process or a profiler takes
    /// another trace; [`why_none`] returns the reason. The first trace takes some hundred
    /// milliseconds to begin.
    pub(super) fn begin(context: &Context) -> Option<Self> {
        let begun = Self::try_begin(context);
        let mut why = WHY_NONE.lock().unwrap_or_else(PoisonError::into_inner);
        *why = begun.as_ref().err().cloned();
        begun.ok()
    }

    fn try_begin(context: &Context) -> Result<Self, String> {
        const CALL: &str = "cuptiActivityEnable";
        let permitted = host_function::check(CALL).and_then(|()| loader::check(CALL));
        permitted.map_err(|error| error.to_string())?;
        let cupti = library()?;
        if TRACING.swap(true, Ordering::Acquire) {
            return Err("another trace is being taken".into());
        }
        let mut trace = Self {
            cupti,
            context: context.handle().expose_provenance() as u64,
            zero_ns: 0,
        };
        // SAFETY: the callbacks have the form that CUPTI's documentation demands. Registering them
        // again changes nothing.
        let registered = unsafe { cupti.cuptiActivityRegisterCallbacks(request_buffer, complete_buffer) };
        told("cuptiActivityRegisterCallbacks", registered)?;
        // After an error, the drop disables the kinds that were enabled.
        for kind in KINDS {
            // SAFETY: CUPTI knows the kind, or refuses it.
            let enabled = unsafe { cupti.cuptiActivityEnable(kind) };
            told("cuptiActivityEnable", enabled)?;
        }
        trace.flush();
        activities().clear();
        // SAFETY: the pointer is to a live u64.
        let timed = unsafe { cupti.cuptiGetTimestamp(&mut trace.zero_ns) };
        told("cuptiGetTimestamp", timed)?;
        // CUPTI's handlers are registered by its first calls.
        static FIRST: Once = Once::new();
        FIRST.call_once(process_end::shut_at_exit);
        Ok(trace)
    }

    /// Makes CUPTI hand over all buffers, also partly filled ones. Blocks until it has.
    fn flush(&self) {
        const FORCED: u32 = CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0;
        // SAFETY: this is not inside a callback of CUPTI. After an error records are missing;
        // nothing unsafe depends on them.
        unsafe { self.cupti.cuptiActivityFlushAll(FORCED) };
    }

    fn handle(&self) -> CUcontext {
        ptr::with_exposed_provenance_mut(self.context as usize)
    }

    /// CUPTI's numbers of the streams, with their indices.
    ///
    /// # Safety
    /// The streams are live.
    unsafe fn stream_ids(&self, streams: &[RawStream]) -> HashMap<u32, usize> {
        let id = |raw: &RawStream| {
            let mut id = 0;
            const OWN_DEFAULT_STREAM: u8 = 0;
            let handle = stream::handle(*raw);
            // SAFETY: the context is live (CONTEXT-1), and by this function's contract the streams
            // are live. The pointer is to a live u32.
            let status = unsafe {
                self.cupti
                    .cuptiGetStreamIdEx(self.handle(), handle, OWN_DEFAULT_STREAM, &mut id)
            };
            (status == CUptiResult::CUPTI_SUCCESS).then_some(id)
        };
        streams
            .iter()
            .enumerate()
            .filter_map(|(index, raw)| Some((id(raw)?, index)))
            .collect()
    }
}

impl Trace for CuptiTrace {
    unsafe fn finish(self: Box<Self>, streams: &[RawStream]) -> Vec<Traced> {
        // CUDA permits no call inside a host function, and CUPTI makes some.
        if host_function::is_inside() {
            return Vec::new();
        }
        self.flush();
        let mut context = 0;
        // SAFETY: the context is live (CONTEXT-1), and the pointer is to a live u32.
        let known = unsafe { self.cupti.cuptiGetContextId(self.handle(), &mut context) };
        let known = known == CUptiResult::CUPTI_SUCCESS;
        // SAFETY: by this function's contract the streams are live.
        let streams = unsafe { self.stream_ids(streams) };
        let found = std::mem::take(&mut *activities());
        let traced = |activity: Activity| Traced {
            stream: streams.get(&activity.stream).copied(),
            kind: activity.kind,
            label: match activity.kind {
                Kind::Kernel => activity.name,
                kind => kind.name().to_owned(),
            },
            start_ns: activity.start_ns.saturating_sub(self.zero_ns),
            end_ns: activity.end_ns.saturating_sub(self.zero_ns),
            bytes: activity.bytes,
            call: activity.correlation,
        };
        let mut traced: Vec<Traced> = found
            .into_iter()
            .filter(|activity| known && activity.context == context && activity.start_ns >= self.zero_ns)
            .map(traced)
            .collect();
        traced.sort_by_key(|traced| (traced.start_ns, traced.end_ns));
        traced
    }
}

impl Drop for CuptiTrace {
    fn drop(&mut self) {
        // Inside a host function the kinds stay enabled. Their records are dropped.
        let kinds = if host_function::is_inside() {
            &[][..]
        } else {
            &KINDS
        };
        for kind in kinds.iter().copied() {
            // SAFETY: as in `begin`. A kind that cannot be disabled only costs time; its records
            // are dropped.
            unsafe { self.cupti.cuptiActivityDisable(kind) };
        }
        TRACING.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one record as CUPTI would, and returns what was read from it.
    fn read_one<T>(record: &T) -> Option<Activity> {
        // SAFETY: the tests pass live records that begin as `read` expects.
        unsafe { read(ptr::from_ref(record).cast()) }
    }

    fn transfer(kind: CUpti_ActivityKind, way: u8, start_ns: u64, end_ns: u64) -> Transfer {
        Transfer {
            kind,
            way: [way, 0, 0, 0],
            bytes: 64,
            start_ns,
            end_ns,
            device: 0,
            context: 1,
            stream: 7,
            correlation: 9,
        }
    }

    #[test]
    fn records_are_read_by_their_kind() {
        let kinds: Vec<_> = [(MEMCPY, 1), (MEMCPY, 2), (MEMCPY, 8), (MEMSET, 1)]
            .into_iter()
            .map(|(kind, way)| read_one(&transfer(kind, way, 10, 20)).unwrap())
            .inspect(|activity| {
                assert_eq!(
                    (activity.bytes, activity.stream, activity.correlation),
                    (64, 7, 9)
                )
            })
            .map(|activity| activity.kind)
            .collect();
        assert_eq!(
            kinds,
            [Kind::CopyToDevice, Kind::CopyToHost, Kind::Copy, Kind::Fill]
        );
    }

    #[test]
    fn records_without_times_or_of_other_kinds_are_left_out() {
        assert!(read_one(&transfer(MEMCPY, 1, 0, 0)).is_none());
        assert!(read_one(&transfer(MEMCPY, 1, 20, 0)).is_none());
        assert!(read_one(&transfer(CUpti_ActivityKind(4), 1, 10, 20)).is_none());
    }

    #[test]
    fn kernels_have_their_names() {
        let launch = Launch {
            kind: KERNEL,
            configuration: [0; 3],
            start_ns: 5,
            end_ns: 6,
            completed_ns: 0,
            device: 0,
            context: 1,
            stream: 2,
            shape: [1; 8],
            local_memory: [0; 2],
            correlation: 3,
            grid_id: 4,
            name: c"entry".as_ptr(),
        };
        let activity = read_one(&launch).unwrap();
        assert_eq!(
            (activity.name.as_str(), activity.stream, activity.correlation),
            ("entry", 2, 3)
        );
    }

    /// As CUPTI asks for a buffer.
    fn requested() -> *mut u8 {
        let (mut buffer, mut bytes, mut most_records) = (ptr::null_mut(), 0, 1);
        // SAFETY: the pointers are to live values.
        unsafe { request_buffer(&mut buffer, &mut bytes, &mut most_records) };
        assert_eq!((bytes, most_records), (BUFFER.size(), 0));
        buffer
    }

    /// As CUPTI returns a buffer without records.
    fn completed(buffer: *mut u8) {
        // SAFETY: the tests use no buffer of `request_buffer` after this call, and no byte of it
        // holds a record.
        unsafe { complete_buffer(ptr::null_mut(), 0, buffer, BUFFER.size(), 0) };
    }

    /// A buffer of another library was freed, here with a layout that it did not have. Its owner
    /// would free it again.
    #[test]
    fn a_buffer_of_another_library_is_neither_read_nor_freed() {
        let mut others = vec![7_u8; BUFFER.size()];
        for valid in [0, 64] {
            // SAFETY: the buffer did not come from `request_buffer`.
            unsafe { complete_buffer(ptr::null_mut(), 0, others.as_mut_ptr(), others.len(), valid) };
        }
        assert!(others.iter().all(|byte| *byte == 7));
        completed(ptr::null_mut());
    }

    #[test]
    fn each_buffer_is_freed_once() {
        let (first, second) = (requested(), requested());
        let has = |buffer: *mut u8| given().contains(&buffer.addr());
        assert!(has(first) && has(second));
        completed(first);
        assert!(!has(first) && has(second));
        // The address is nobody's now, or another owner's.
        completed(first);
        completed(second);
        assert!(!has(second));
    }

    #[test]
    fn versions_that_were_not_seen_are_refused() {
        assert!([18, 26, 28, 130_000, 130_001, 130_500].into_iter().all(is_known));
        assert!(![0, 17, 29, 129_999, 130_600, 140_000].into_iter().any(is_known));
    }

    #[test]
    fn the_library_is_used_or_the_error_says_why_not() {
        let loaded = NAMES.iter().find(|name| {
            // SAFETY: loading the library only runs its initialisers.
            unsafe { libloading::Library::new(**name) }.is_ok()
        });
        match (library(), loaded) {
            (Ok(_), Some(_)) => {}
            // CUPTI can tell its version only where a driver is installed.
            (Err(why), Some(name)) => {
                assert!(why.contains(name), "{why}");
                assert!(
                    !why.contains("has no"),
                    "every version has all that is called: {why}"
                );
                eprintln!("SKIPPED: {why}");
            }
            (found, None) => {
                let why = found.err().expect("there is nothing to find");
                assert!(NAMES.iter().all(|name| why.contains(name)), "{why}");
                eprintln!("SKIPPED: {why}");
            }
        }
    }
}
