//! The primary context of a device: retained for ever, and made current where a call needs it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::ffi::{self, CUstreamCaptureMode};
use super::function_table;
use super::library::{Library, Permitted};
use super::process_end::{self, Inside};
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// The compiler of PTX, which the driver loads with the first module. Its exit handlers must be
/// registered before ours, so it is loaded before: on an H200 (driver 580) it registers four.
const COMPILERS: &[&str] = if cfg!(target_os = "linux") {
    &["libnvidia-ptxjitcompiler.so.1"]
} else {
    &[]
};

/// When a call on a stream or event makes sure that its context is current.
///
/// Other libraries change the thread's current context, so it is never assumed. A check can come
/// before a call, or after a call was refused. A call under a wrong current context either fails or
/// works on the right objects: streams and events belong to one context, and the default stream is
/// never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextCheck {
    /// Calls `cuCtxGetCurrent` before each call, and `cuCtxSetCurrent` if another context is
    /// current.
    EveryCall,
    /// Checks nothing before a call. A refused call is made again with our context current, unless
    /// it already was.
    WhenRefused,
}

impl ContextCheck {
    /// The choice that drivers start with. Measured on an H200 (driver 580): a record and a wait
    /// through the driver take 1.11 times the raw calls with a check before each, and 1.05 times
    /// without. Record, wait, launch, query and synchronise all succeed there with no context
    /// current, and with another context current.
    pub const DEFAULT: Self = Self::WhenRefused;

    const fn prelude(self) -> u8 {
        match self {
            Self::EveryCall => CHECKS,
            Self::WhenRefused => NOTHING,
        }
    }
}

/// A device's primary context.
///
/// # Invariants
/// CONTEXT-1. `handle` is the primary context of `device`. It was retained when this value was
/// made, and is never released.
/// CONTEXT-2. Nothing here resets or destroys a context.
pub(crate) struct Context {
    library: &'static Library,
    handle: ffi::CUcontext,
    device: ffi::CUdevice,
    ordinal: usize,
    /// What a call that enqueues does first: [`CHECKS`], [`IS_LOST`], or nothing. One number, so
    /// that such a call reads one.
    prelude: AtomicU8,
    /// The error of a host function that failed. Every later call returns it.
    lost: OnceLock<DriverError>,
}

/// The prelude of most calls.
const NOTHING: u8 = 0;
/// The calls make the context current ([`ContextCheck::EveryCall`]).
const CHECKS: u8 = 1;
/// A host function failed: `lost` says why.
const IS_LOST: u8 = 2;

// SAFETY: a CUDA context may be used from any thread; `handle` is only a name for it, never
// dereferenced here.
unsafe impl Send for Context {}
// SAFETY: as above, and the driver API is thread-safe.
unsafe impl Sync for Context {}

impl Context {
    /// The context's handle.
    pub(crate) fn handle(&self) -> ffi::CUcontext {
        self.handle
    }

    /// Retains the primary context of a device (`cuDevicePrimaryCtxRetain`).
    pub(super) fn retain(library: &'static Library, ordinal: usize) -> DriverResult<Self> {
        let number =
            i32::try_from(ordinal).map_err(|_| DriverError::new("cuDeviceGet", ErrorCode::INVALID_DEVICE))?;
        let mut device = 0;
        // SAFETY: the pointer is to a live CUdevice, and the driver is initialised.
        unsafe { library.cuDeviceGet(&mut device, number) }?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to a live CUcontext, and the device is valid.
        unsafe { library.cuDevicePrimaryCtxRetain(&mut handle, device) }?;
        function_table::load_early(COMPILERS);
        process_end::shut_at_exit();
        Ok(Self {
            library,
            handle,
            device,
            ordinal,
            prelude: AtomicU8::new(ContextCheck::DEFAULT.prelude()),
            lost: OnceLock::new(),
        })
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn device(&self) -> ffi::CUdevice {
        self.device
    }

    pub(super) fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub(super) fn set_check(&self, check: ContextCheck) {
        self.prelude.fetch_and(!CHECKS, Ordering::Relaxed);
        self.prelude.fetch_or(check.prelude(), Ordering::Relaxed);
    }

    /// Makes every later call fail with `why`. The first loss counts.
    pub(super) fn lose(&self, why: DriverError) {
        let _ = self.lost.set(why);
        self.prelude.fetch_or(IS_LOST, Ordering::Release);
    }

    /// An error if a host function has failed. A wait asks it after its call too: a function that
    /// fails says so before CUDA takes it for done.
    #[inline]
    pub(super) fn check_lost(&self) -> DriverResult<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(why.clone()),
        }
    }

    /// An error if no call may be made: from inside a host function, or after one has failed. Every
    /// call of a driver comes through here, or through the same checks in `enqueue`.
    #[inline]
    fn check_permitted(&self) -> DriverResult<()> {
        host_function::check("cuCtxGetCurrent")?;
        self.check_lost()
    }

    /// Makes this context the thread's current one. Returns whether another context was current.
    #[inline]
    fn make_current(&self) -> DriverResult<bool> {
        host_function::check("cuCtxGetCurrent")?;
        let inside = process_end::enter().map_err(|refusal| refusal.error("cuCtxGetCurrent"))?;
        self.make_current_with(self.library.permitted(&inside))
    }

    #[inline]
    fn make_current_with(&self, library: Permitted<'_>) -> DriverResult<bool> {
        let mut current = ptr::null_mut();
        // SAFETY: the pointer is to a live CUcontext.
        unsafe { library.cuCtxGetCurrent(&mut current) }?;
        if current == self.handle {
            return Ok(false);
        }
        self.set_current().map(|()| true)
    }

    #[cold]
    fn set_current(&self) -> DriverResult<()> {
        // SAFETY: CONTEXT-1: `handle` is a handle that the driver gave out.
        let set = unsafe { self.library.cuCtxSetCurrent(self.handle) };
        set.map_err(|error| match error.code() {
            // By CONTEXT-2 other code did it, and all our objects are gone.
            ErrorCode::INVALID_CONTEXT => DriverError::with_detail(
                error.call(),
                ErrorCode::CONTEXT_IS_DESTROYED,
                format!("other code in this process reset device {}", self.ordinal),
            ),
            _ => error,
        })
    }

    /// Prepares for calls that use the thread's current context, or that may be refused while other
    /// code captures.
    ///
    /// While the returned value lives, the thread is in relaxed capture mode. Without it, a thread
    /// that captures in global mode would refuse allocations, queries and module loads everywhere
    /// in the process, and lose its capture.
    ///
    /// The thread stays inside the gate meanwhile: its calls pass the gate together. So no code of
    /// a user may run; it gets [`lend`](Self::lend).
    pub(crate) fn enter(&self) -> DriverResult<Entered<'_>> {
        self.check_permitted()?;
        let inside = process_end::enter().map_err(|refusal| refusal.error("cuCtxGetCurrent"))?;
        let previous = self.relax(self.library.permitted(&inside))?;
        Ok(Entered {
            library: self.library,
            previous,
            inside,
        })
    }

    /// As [`enter`](Self::enter), for code of a user, which may end the process.
    pub(crate) fn lend(&self) -> DriverResult<Lent<'_>> {
        self.check_permitted()?;
        let inside = process_end::enter().map_err(|refusal| refusal.error("cuCtxGetCurrent"))?;
        let previous = self.relax(self.library.permitted(&inside))?;
        Ok(Lent {
            library: self.library,
            previous,
            thread: PhantomData,
        })
    }

    /// Makes the context current, and the thread's capture mode relaxed. Returns the mode before.
    #[inline]
    fn relax(&self, library: Permitted<'_>) -> DriverResult<CUstreamCaptureMode> {
        self.make_current_with(library)?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a live mode.
        unsafe { library.cuThreadExchangeStreamCaptureMode(&mut mode) }?;
        Ok(mode)
    }

    /// Makes the call of this name, which only enqueues work on a stream. The handles in the call
    /// determine its context. This is the hot path, and the only place that decides when to check
    /// the current context. The call passes the gate once, here.
    #[inline]
    pub(crate) fn enqueue(
        &self,
        name: &'static str,
        call: impl Fn(Permitted<'_>) -> DriverResult<()>,
    ) -> DriverResult<()> {
        host_function::check("cuCtxGetCurrent")?;
        let mut is_checked = false;
        if self.prelude.load(Ordering::Acquire) != NOTHING {
            is_checked = self.begin()?;
        }
        let inside = process_end::enter().map_err(|refusal| refusal.error(name))?;
        // A loop, so that the call is in the program once.
        loop {
            let Err(error) = call(self.library.permitted(&inside)) else {
                return Ok(());
            };
            if is_checked {
                return Err(error);
            }
            self.prepare_again(error)?;
            is_checked = true;
        }
    }

    /// What comes before some calls that enqueue. Returns whether the context was checked.
    #[cold]
    fn begin(&self) -> DriverResult<bool> {
        self.check_lost()?;
        let checks = self.prelude.load(Ordering::Acquire) & CHECKS != 0;
        if checks {
            self.make_current()?;
        }
        Ok(checks)
    }

    /// As [`enqueue`](Self::enqueue), for a call that depends on the current context too. Example:
    /// CUDA refuses or stages a copy between devices if the current context has no access to both
    /// memories.
    pub(super) fn enqueue_here(
        &self,
        name: &'static str,
        call: impl FnOnce(Permitted<'_>) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.check_permitted()?;
        self.make_current()?;
        let inside = process_end::enter().map_err(|refusal| refusal.error(name))?;
        call(self.library.permitted(&inside))
    }

    /// Whether a call that failed is made again: `Ok` if another context was current.
    #[cold]
    fn prepare_again(&self, error: DriverError) -> DriverResult<()> {
        // A refused call has enqueued nothing, so it may be made again.
        if is_refusal(error.code()) && self.make_current()? {
            Ok(())
        } else {
            Err(error)
        }
    }
}

/// Whether CUDA may have refused a call because another context was current. CUDA does not document
/// the error. These codes say that a context or a handle does not fit; `CONTEXT_IS_DESTROYED` may
/// concern a stale context of other code. Any other error may come from a call that took effect.
fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::INVALID_CONTEXT
            | ErrorCode::CONTEXT_IS_DESTROYED
            | ErrorCode::INVALID_HANDLE
            | ErrorCode::INVALID_VALUE
    )
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("ordinal", &self.ordinal)
            .finish_non_exhaustive()
    }
}

/// Proof that the context is current and the thread in relaxed capture mode. Dropping it restores
/// the mode.
///
/// The context stays current. Restoring the previous context would cost a call each time, and code
/// that needs another context sets its own, as we do.
#[must_use = "dropping it at once restores the capture mode before the call"]
pub(crate) struct Entered<'a> {
    library: &'a Library,
    previous: CUstreamCaptureMode,
    /// The mode belongs to the thread, and so does this proof: neither moves to another thread.
    inside: Inside,
}

impl Entered<'_> {
    /// The calls of the library.
    #[inline]
    pub(super) fn library(&self) -> Permitted<'_> {
        self.library.permitted(&self.inside)
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut mode = self.previous;
        // SAFETY: the pointer is to a live mode. If the call fails, the thread stays in relaxed
        // mode, which refuses nothing.
        let _ = unsafe { self.library().cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
}

/// As [`Entered`], outside of the gate.
#[must_use = "dropping it at once restores the capture mode before the call"]
pub(crate) struct Lent<'a> {
    library: &'a Library,
    previous: CUstreamCaptureMode,
    /// The mode belongs to the thread: this value must not move to another thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut mode = self.previous;
        // SAFETY: the pointer is to a live mode. If the call fails, the thread stays in relaxed
        // mode, which refuses nothing.
        let _ = unsafe { self.library.cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_context_or_a_handle_that_does_not_fit_is_a_refusal() {
        assert!(is_refusal(ErrorCode::INVALID_CONTEXT));
        for code in [
            ErrorCode::OUT_OF_MEMORY,
            ErrorCode::LAUNCH_FAILED,
            ErrorCode::NOT_READY,
            ErrorCode::UNKNOWN,
            ErrorCode::DEINITIALIZED,
        ] {
            assert!(!is_refusal(code), "{code:?}");
        }
    }
}
