//! [`scope`]: named stages of the host in a timeline.

use std::borrow::Cow;
#[cfg(feature = "nvtx")]
use std::ffi::CString;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::session::Session;
use cuda_rt_driver::Kind;

/// The number of recordings in progress, of all devices. Without a recording a scope costs one
/// load.
static LISTENING: AtomicUsize = AtomicUsize::new(0);
static SESSIONS: Mutex<Vec<Weak<Session>>> = Mutex::new(Vec::new());

fn sessions() -> MutexGuard<'static, Vec<Weak<Session>>> {
    // The list is consistent after any panic: each change is one call.
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn listen(session: &Arc<Session>) {
    let mut sessions = sessions();
    sessions.push(Arc::downgrade(session));
    LISTENING.store(sessions.len(), Ordering::Relaxed);
}

pub(super) fn unlisten(session: &Arc<Session>) {
    let mut sessions = sessions();
    sessions.retain(|other| other.as_ptr() != Arc::as_ptr(session) && other.strong_count() > 0);
    LISTENING.store(sessions.len(), Ordering::Relaxed);
}

/// Begins a named stage of the calling thread, in every recording in progress. The stage ends when
/// the guard is dropped. Without a recording the call does nothing. Scopes may be nested. With the
/// feature `nvtx` each scope is also an NVTX range (`nvtxRangePushA`), with or without a recording.
/// A profiler shows these names, and `ncu --nvtx --nvtx-include "sink/"` profiles the kernels of
/// one stage.
///
/// On a simulated device a stage lasts the thread's modelled time: its calls of the device, its
/// waits, and time added by
/// [`Simulator::spend_host_ns`](cuda_rt_simulator::Simulator::spend_host_ns). The thread's own
/// computation takes no modelled time.
#[inline]
pub fn scope(name: impl Into<Cow<'static, str>>) -> Scope {
    let mut scope = Scope::begin(name.into());
    if LISTENING.load(Ordering::Relaxed) > 0 {
        scope.tell_each(|_| true);
    }
    scope
}

/// A stage of the host in progress; see [`scope`].
#[must_use = "the stage ends when this is dropped: keep it in a variable, `let _stage = ..`"]
#[derive(Debug)]
pub struct Scope {
    name: Cow<'static, str>,
    started: Vec<(Arc<Session>, u64)>,
    #[cfg(feature = "nvtx")]
    _range: nvtx::LocalRange,
    /// A stage ends on the thread on which it began.
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// A stage that is in no recording yet.
    #[inline]
    pub(super) fn begin(name: Cow<'static, str>) -> Self {
        Self {
            #[cfg(feature = "nvtx")]
            _range: nvtx_range(&name),
            name,
            started: Vec::new(),
            not_send: PhantomData,
        }
    }

    /// Begins the stage in each `wanted` recording in progress.
    #[cold]
    pub(super) fn tell_each(&mut self, wanted: impl Fn(&Session) -> bool) {
        let listening = sessions().clone();
        let wanted = listening
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|session| wanted(session));
        self.started.extend(wanted.map(|session| {
            let now_ns = session.host_now_ns();
            (session, now_ns)
        }));
    }

    #[cold]
    fn end(&mut self) {
        for (session, start_ns) in self.started.drain(..) {
            session.add_host(Kind::Stage, self.name.clone(), start_ns, None);
        }
    }
}

#[cfg(feature = "nvtx")]
fn nvtx_range(name: &str) -> nvtx::LocalRange {
    // NVTX also has wide strings, but filters of profilers do not match them. So the name is passed
    // as UTF-8, cut at its first 0.
    let name = name.split('\0').next().unwrap_or_default();
    nvtx::LocalRange::new(CString::new(name).unwrap_or_default())
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        if !self.started.is_empty() {
            self.end();
        }
    }
}
