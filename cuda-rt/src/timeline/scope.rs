//! Named stages of the host.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Kind;
use super::recorder::Session;

/// Recordings that are going on, of all devices; counted, so that a scope costs one load where there is none.
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

/// Names what the calling thread does until the guard is dropped, in every recording that is going on; nothing where
/// there is none. Scopes may lie within scopes. With the feature `nvtx` they are NVTX ranges too (`nvtxRangePushA`), whether a
/// recording is going on or not.
///
/// On a simulated device it takes the thread's modelled time: calls of the device and waits for it, and what
/// [`Simulator::spend_host_ns`](crate::driver::sim::Simulator::spend_host_ns) adds. What the thread computes itself takes none.
pub fn scope(name: impl Into<Cow<'static, str>>) -> Scope {
    let listening = LISTENING.load(Ordering::Relaxed) > 0;
    let sessions = if listening { sessions().clone() } else { Vec::new() };
    Scope::begin(name.into(), sessions.iter().filter_map(Weak::upgrade))
}

/// A stage of the host that is going on; see [`scope`].
#[must_use = "the stage ends when this is dropped: keep it in a variable, `let _stage = ..`"]
#[derive(Debug)]
pub struct Scope {
    name: Cow<'static, str>,
    started: Vec<(Arc<Session>, u64)>,
    #[cfg(feature = "nvtx")]
    _range: Option<crate::driver::cuda::nvtx::NvtxRange>,
    /// It ends on the thread on which it began.
    not_send: PhantomData<*const ()>,
}

impl Scope {
    pub(super) fn begin(name: Cow<'static, str>, sessions: impl IntoIterator<Item = Arc<Session>>) -> Self {
        let start = |session: Arc<Session>| {
            let now_ns = session.host_now_ns();
            (session, now_ns)
        };
        Self {
            #[cfg(feature = "nvtx")]
            _range: crate::driver::cuda::nvtx::NvtxRange::push(&name),
            name,
            started: sessions.into_iter().map(start).collect(),
            not_send: PhantomData,
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        for (session, start_ns) in self.started.drain(..) {
            session.add_host(Kind::Stage, self.name.clone(), start_ns, None);
        }
    }
}
