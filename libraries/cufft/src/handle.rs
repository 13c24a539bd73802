//! Handles of cuFFT, each planned for one description, and used by one [`Plan`](crate::Plan) at a
//! time.
//!
//! A handle has a stream and a work area, which are set where a call finds others ([`Held::set`]).
//! So a handle serves a stream and, inside of a capture, the stream of the capture.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use cuda_rt_runtime::driver::{DeviceAddress, DriverError, RawStream};
use cuda_rt_runtime::driver_cuda::NvidiaLibrary;

use crate::error::{FftError, Result};
use crate::ffi::{Cufft, cufftHandle};
use crate::shape::Description;

/// Names of the library, the newest first. CUDA 13 has version 12 of cuFFT, CUDA 12 version 11, and
/// CUDA 11 version 10.
const NAMES: &[&str] = if cfg!(windows) {
    &["cufft64_12.dll", "cufft64_11.dll", "cufft64_10.dll"]
} else {
    &[
        "libcufft.so.12",
        "libcufft.so.11",
        "libcufft.so.10",
        "libcufft.so",
    ]
};

/// A file to load instead, if the process was started with this variable.
const FILE_VARIABLE: &str = "CUDA_RT_CUFFT";

/// The version of CUDA 11.0. CUDA 10 has files of the same name.
const OLDEST: c_int = 10_200;

const DURING: &str = "Plan::new";

/// The library, loaded once for the process.
fn cufft() -> Result<&'static Cufft> {
    static CUFFT: OnceLock<Result<Cufft, DriverError>> = OnceLock::new();
    CUFFT
        .get_or_init(|| {
            // SAFETY: files with these names are NVIDIA's cuFFT, or the file that whoever started
            // the process named. Its initialisers set up its own state.
            let library = unsafe { NvidiaLibrary::load("cuFFT", NAMES, FILE_VARIABLE) }?;
            Cufft::of(library)
        })
        .as_ref()
        .map_err(|source| FftError::Library {
            during: DURING,
            source: source.clone(),
        })
}

fn version(cufft: &Cufft, during: &'static str) -> Result<c_int> {
    let mut version = 0;
    // SAFETY: the pointer is to a live int.
    unsafe { cufft.cufftGetVersion(during, &mut version) }?;
    Ok(version)
}

/// A handle of cuFFT.
///
/// # Invariants
/// FFT-HANDLE-1. It was made and planned in the primary context of a device, which is never
/// destroyed, and is never destroyed itself. So its own memory is there for work that is pending,
/// and for graphs.
/// FFT-HANDLE-2. cuFFT allocates no work area for it, and its transforms use `work_bytes` bytes of
/// the area that is set.
struct Handle {
    raw: cufftHandle,
    work_bytes: usize,
}

/// Handles that no `Plan` uses, by the ordinal of their device and what they are planned for.
static IDLE: Mutex<BTreeMap<(usize, Description), Vec<Handle>>> = Mutex::new(BTreeMap::new());

impl Handle {
    /// Makes and plans a handle in the thread's current context, which is the primary context of
    /// the device.
    fn create(cufft: &Cufft, description: &Description) -> Result<Self> {
        let version = version(cufft, DURING)?;
        if version < OLDEST {
            let file = cufft.name().to_owned();
            return Err(FftError::Version { file, version });
        }
        let mut raw = -1;
        // SAFETY: the pointer is to a live variable for the handle.
        unsafe { cufft.cufftCreate(DURING, &mut raw) }?;
        let planned = Self::plan(cufft, raw, description);
        // The first handles may register handlers of the library's.
        let _ = cufft.initialise("cufftMakePlanMany64", || ());
        match planned {
            Ok(work_bytes) => Ok(Self { raw, work_bytes }),
            Err(error) => {
                // A handle for each attempt would fill the memory.
                // SAFETY: the handle was made above. It is not planned, so no work uses it.
                let _ = unsafe { cufft.cufftDestroy(DURING, raw) };
                Err(error)
            }
        }
    }

    fn plan(cufft: &Cufft, raw: cufftHandle, description: &Description) -> Result<usize> {
        // SAFETY: the handle is new, and not planned yet.
        unsafe { cufft.cufftSetAutoAllocation(DURING, raw, 0) }?;
        let Description {
            kind,
            rank,
            mut sizes,
            mut input,
            mut output,
            batch,
        } = *description;
        let first = 3 - rank;
        let mut work_bytes = 0;
        // SAFETY: the handle is new. The arrays have `rank` numbers from `first` on, which are read
        // before the call returns. The last pointer is to a live number.
        unsafe {
            cufft.cufftMakePlanMany64(
                DURING,
                raw,
                rank as c_int,
                sizes[first..].as_mut_ptr(),
                input.array[first..].as_mut_ptr(),
                input.stride,
                input.distance,
                output.array[first..].as_mut_ptr(),
                output.stride,
                output.distance,
                kind,
                batch,
                &mut work_bytes,
            )
        }?;
        Ok(work_bytes)
    }
}

/// A work area and the stream in whose order it is used.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// A number of the `Plan` that no other has.
    pub(crate) owner: u64,
    pub(crate) stream: RawStream,
    pub(crate) workspace: DeviceAddress,
}

/// A handle, with what it is set to.
///
/// # Invariants
/// HELD-FFT-1. Calls on the handle are made under the lock of the [`SharedHandle`].
/// HELD-FFT-2. If `owner` is set, the handle has the stream and the work area of this `Plan`.
pub(crate) struct Held {
    cufft: &'static Cufft,
    handle: cufftHandle,
    owner: Option<u64>,
}

impl Held {
    /// The library and the handle, set to this stream and work area.
    ///
    /// # Safety
    /// The stream is live, and of the handle's device. The work area has
    /// [`work_bytes`](SharedHandle::work_bytes), and every use of it is in the order of the stream.
    /// Both hold for each call that is made on the handle before it is set again.
    pub(crate) unsafe fn set(
        &mut self,
        during: &'static str,
        setting: Setting,
    ) -> Result<(&'static Cufft, cufftHandle)> {
        let (cufft, raw) = (self.cufft, self.handle);
        if self.owner != Some(setting.owner) {
            // Until all is set the handle counts as set to nothing.
            self.owner = None;
            let stream = ptr::with_exposed_provenance_mut(setting.stream.0 as usize);
            // SAFETY: FFT-HANDLE-1; the stream is live by this function's contract.
            unsafe { cufft.cufftSetStream(during, raw, stream) }?;
            let area = ptr::with_exposed_provenance_mut::<c_void>(setting.workspace.0 as usize);
            // SAFETY: FFT-HANDLE-1; the area is long enough by this function's contract.
            unsafe { cufft.cufftSetWorkArea(during, raw, area) }?;
            self.owner = Some(setting.owner);
        }
        Ok((cufft, raw))
    }

    /// Called behind the first calls that enqueue: there cuFFT loads its kernels.
    pub(crate) fn note_call(&self) {
        static FIRST: Once = Once::new();
        if !FIRST.is_completed() {
            FIRST.call_once(|| {
                let _ = self.cufft.initialise("cufftExecC2C", || ());
            });
        }
    }

    pub(crate) fn version(&self) -> Result<c_int> {
        version(self.cufft, "Plan::version")
    }
}

/// A handle that one `Plan` uses, with those that it lends to captures. The last of them gives it
/// back.
pub(crate) struct SharedHandle {
    key: (usize, Description),
    work_bytes: usize,
    held: Mutex<Held>,
}

impl SharedHandle {
    /// A handle that nobody uses, or a new one. The primary context of the device of this ordinal
    /// must be current.
    pub(crate) fn take(ordinal: usize, description: Description) -> Result<Self> {
        let cufft = cufft()?;
        let key = (ordinal, description);
        let idle = IDLE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(&key)
            .and_then(Vec::pop);
        let handle = match idle {
            Some(handle) => handle,
            None => Handle::create(cufft, &description)?,
        };
        let held = Held {
            cufft,
            handle: handle.raw,
            owner: None,
        };
        Ok(Self {
            key,
            work_bytes: handle.work_bytes,
            held: Mutex::new(held),
        })
    }

    /// Bytes of the work area that the transforms use.
    pub(crate) fn work_bytes(&self) -> usize {
        self.work_bytes
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        // A thread that panicked under the lock left the handle as HELD-FFT-2 says.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedHandle {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Where another thread has the lock, the handle is leaked: in a child of `fork` that thread
        // may not exist.
        if let Ok(mut idle) = IDLE.try_lock() {
            let (raw, work_bytes) = (held.handle, self.work_bytes);
            idle.entry(self.key).or_default().push(Handle { raw, work_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where cuFFT is installed, it has each function; elsewhere the error says what was tried.
    #[test]
    fn the_library_is_used_or_the_error_says_what_was_looked_for() {
        match cufft() {
            Ok(cufft) => eprintln!("found {}", cufft.name()),
            Err(error) => {
                let text = error.to_string();
                assert!(NAMES.iter().all(|name| text.contains(name)), "{text}");
                assert!(
                    text.contains(FILE_VARIABLE) && text.starts_with("Plan::new: "),
                    "{text}"
                );
                eprintln!("SKIPPED: {error}");
            }
        }
    }
}
