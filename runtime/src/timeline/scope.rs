//! Named stages of the host.

use std::borrow::Cow;
#[cfg(feature = "nvtx")]
use std::ffi::CString;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::session::Session;
use cuda_rt_driver::Kind;

/// Recordings that are going on, of all devices; counted, so that a scope costs one load where
/// there is none.
static LISTENING: AtomicUsize = AtomicUsize::new(0);
static SESSIONS: Mutex<Vec<Weak<Session>>> = Mutex::new(Vec::new());

fn sessions() -> MutexGuard<'static, Vec<Weak<Session>>> {
    // Each change is one call: a panic leaves it whole.
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

/// Names what the calling thread does until the guard is dropped, in every recording that is going
/// on; nothing where there is none. Scopes may lie within scopes. With the feature `nvtx` they are
/// NVTX ranges too (`nvtxRangePushA`), whether a recording is going on or not: a profiler names the
/// stages of its own pictures by them, and `ncu --nvtx --nvtx-include "sink/"` profiles the kernels
/// of one stage.
///
/// On a simulated device it takes the thread's modelled time: calls of the device and waits for it,
/// and what [`Simulator::spend_host_ns`](cuda_rt_simulator::Simulator::spend_host_ns) adds. What
/// the thread computes itself takes none.
#[inline]
pub fn scope(name: impl Into<Cow<'static, str>>) -> Scope {
    let mut scope = Scope::begin(name.into());
    if LISTENING.load(Ordering::Relaxed) > 0 {
        scope.tell_each(|_| true);
    }
    scope
}

/// A stage of the host that is going on; see [`scope`].
#[must_use = "the stage ends when this is dropped: keep it in a variable, `let _stage = ..`"]
#[derive(Debug)]
pub struct Scope {
    name: Cow<'static, str>,
    started: Vec<(Arc<Session>, u64)>,
    #[cfg(feature = "nvtx")]
    _range: nvtx::LocalRange,
    /// It ends on the thread on which it began.
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// A stage that no recording is told of yet.
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

    /// Begins the stage in the recordings that are going on, as far as they are `wanted`.
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
    // As bytes of UTF-8, which ends at its first 0: filters of profilers do not match the wide
    // strings that NVTX has too.
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
