//! Handles of cuBLAS, which are kept for ever and used by one [`Blas`](crate::Blas) at a time.
//!
//! A handle has a stream, a workspace and a pointer mode, which are set where a call finds others
//! ([`Held::set`]). So a handle serves a stream and, inside of a capture, the stream of the
//! capture.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use cuda_rt_runtime::driver::{DeviceAddress, DriverError, RawStream};
use cuda_rt_runtime::driver_cuda::NvidiaLibrary;

use crate::error::{BlasError, Result};
use crate::ffi::{Cublas, cublasHandle_t, cublasPointerMode_t};

/// Names of the library, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["cublas64_13.dll", "cublas64_12.dll", "cublas64_11.dll"]
} else {
    &[
        "libcublas.so.13",
        "libcublas.so.12",
        "libcublas.so.11",
        "libcublas.so",
    ]
};

/// A file to load instead, if the process was started with this variable.
const FILE_VARIABLE: &str = "CUDA_RT_CUBLAS";

/// The first version with `cublasComputeType_t`, which `cublasGemmEx` takes since.
const OLDEST: c_int = 110_000;

/// The library, loaded once for the process.
fn cublas() -> Result<&'static Cublas> {
    static CUBLAS: OnceLock<Result<Cublas, DriverError>> = OnceLock::new();
    CUBLAS
        .get_or_init(|| {
            // SAFETY: files with these names are NVIDIA's cuBLAS, or the file that whoever started
            // the process named. Its initialisers set up its own state.
            let library = unsafe { NvidiaLibrary::load("cuBLAS", NAMES, FILE_VARIABLE) }?;
            Cublas::of(library)
        })
        .as_ref()
        .map_err(|source| BlasError::Library {
            during: "Blas::new",
            source: source.clone(),
        })
}

/// A handle of cuBLAS.
///
/// # Invariants
/// HANDLE-1. It was made in the primary context of a device, which is never destroyed, and is never
/// destroyed itself. So its own memory is there for work that is pending, and for graphs.
struct Handle(cublasHandle_t);

// SAFETY: cuBLAS' functions may be called from any thread, for one handle by one thread at a time:
// "2.1.3 Thread Safety" of its documentation. The handle is behind a lock (HELD-HANDLE-1).
unsafe impl Send for Handle {}

/// Handles that no `Blas` uses, by the ordinal of their device.
static IDLE: Mutex<BTreeMap<usize, Vec<Handle>>> = Mutex::new(BTreeMap::new());

impl Handle {
    /// Makes a handle in the thread's current context, which is the primary context of the device.
    fn create(cublas: &Cublas) -> Result<Self> {
        const DURING: &str = "Blas::new";
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a live variable for the handle.
        unsafe { cublas.cublasCreate_v2(DURING, &mut raw) }?;
        // HANDLE-1: the context is the driver's, which retains it for ever.
        let handle = Self(raw);
        let mut version = 0;
        // SAFETY: HANDLE-1, and the pointer is to a live int.
        unsafe { cublas.cublasGetVersion_v2(DURING, handle.0, &mut version) }?;
        // The first handles and the first calls may register handlers of the library's.
        let _ = cublas.initialise("cublasCreate_v2", || ());
        if version < OLDEST {
            let file = cublas.name().to_owned();
            return Err(BlasError::Version { file, version });
        }
        Ok(handle)
    }
}

/// A workspace and the stream in whose order it is used.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// A number of the `Blas` that no other has.
    pub(crate) owner: u64,
    pub(crate) stream: RawStream,
    pub(crate) workspace: DeviceAddress,
    pub(crate) workspace_bytes: usize,
}

/// A handle, with what it is set to.
///
/// # Invariants
/// HELD-HANDLE-1. Calls on the handle are made under the lock of the [`SharedHandle`].
/// HELD-HANDLE-2. If `owner` is set, the handle has the stream and the workspace of this `Blas`. If
/// `mode` is set, it has this pointer mode.
pub(crate) struct Held {
    cublas: &'static Cublas,
    handle: Handle,
    owner: Option<u64>,
    mode: Option<cublasPointerMode_t>,
}

impl Held {
    /// The library and the handle, set to this stream, workspace and pointer mode.
    ///
    /// # Safety
    /// The stream is live, and of the handle's device. The workspace is as long as said, and every
    /// use of it is in the order of the stream. Both hold for each call that is made on the handle
    /// before it is set again.
    pub(crate) unsafe fn set(
        &mut self,
        during: &'static str,
        setting: Setting,
        mode: cublasPointerMode_t,
    ) -> Result<(&'static Cublas, cublasHandle_t)> {
        let (cublas, raw) = (self.cublas, self.handle.0);
        if self.owner != Some(setting.owner) {
            // Until all is set the handle counts as set to nothing.
            self.owner = None;
            let stream = ptr::with_exposed_provenance_mut(setting.stream.0 as usize);
            // SAFETY: HANDLE-1; the stream is live by this function's contract.
            unsafe { cublas.cublasSetStream_v2(during, raw, stream) }?;
            let workspace = ptr::with_exposed_provenance_mut::<c_void>(setting.workspace.0 as usize);
            // The stream comes first: setting it removes the workspace.
            // SAFETY: HANDLE-1; the workspace is live by this function's contract.
            unsafe { cublas.cublasSetWorkspace_v2(during, raw, workspace, setting.workspace_bytes) }?;
            self.owner = Some(setting.owner);
        }
        if self.mode != Some(mode) {
            self.mode = None;
            // SAFETY: HANDLE-1.
            unsafe { cublas.cublasSetPointerMode_v2(during, raw, mode) }?;
            self.mode = Some(mode);
        }
        Ok((cublas, raw))
    }

    /// Called behind the first calls that enqueue: there cuBLAS loads its kernels.
    pub(crate) fn note_call(&self) {
        static FIRST: Once = Once::new();
        if !FIRST.is_completed() {
            FIRST.call_once(|| {
                let _ = self.cublas.initialise("cublasGemmEx", || ());
            });
        }
    }

    pub(crate) fn version(&self) -> Result<c_int> {
        let mut version = 0;
        // SAFETY: HANDLE-1, and the pointer is to a live int.
        unsafe {
            self.cublas
                .cublasGetVersion_v2("Blas::version", self.handle.0, &mut version)
        }?;
        Ok(version)
    }
}

/// A handle that one `Blas` uses, with those that it lends to captures. The last of them gives it
/// back.
pub(crate) struct SharedHandle {
    ordinal: usize,
    held: Mutex<Held>,
}

impl SharedHandle {
    /// A handle that nobody uses, or a new one. The primary context of the device of this ordinal
    /// must be current.
    pub(crate) fn take(ordinal: usize) -> Result<Self> {
        let cublas = cublas()?;
        let idle = IDLE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(&ordinal)
            .and_then(Vec::pop);
        let handle = match idle {
            Some(handle) => handle,
            None => Handle::create(cublas)?,
        };
        let held = Held {
            cublas,
            handle,
            owner: None,
            mode: None,
        };
        Ok(Self {
            ordinal,
            held: Mutex::new(held),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        // A thread that panicked under the lock left the handle as HELD-HANDLE-2 says.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedHandle {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Where another thread has the lock, the handle is leaked: in a child of `fork` that thread
        // may not exist.
        if let Ok(mut idle) = IDLE.try_lock() {
            idle.entry(self.ordinal).or_default().push(Handle(held.handle.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where cuBLAS is installed, it has each function; elsewhere the error says what was tried.
    #[test]
    fn the_library_is_used_or_the_error_says_what_was_looked_for() {
        match cublas() {
            Ok(cublas) => eprintln!("found {}", cublas.name()),
            Err(error) => {
                let text = error.to_string();
                assert!(NAMES.iter().all(|name| text.contains(name)), "{text}");
                assert!(
                    text.contains(FILE_VARIABLE) && text.starts_with("Blas::new: "),
                    "{text}"
                );
                eprintln!("SKIPPED: {error}");
            }
        }
    }
}
