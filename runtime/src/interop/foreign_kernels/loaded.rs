//! [`LoadedModule`]: a module of a device, unloaded once the last use of its kernels is over.

use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::core::DeviceCore;
use crate::order::completion::{Completion, Done};
use crate::order::fence::Fence;
use crate::order::last_uses::LastUses;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use cuda_rt_driver::{Driver, DriverResult, RawFunction, RawModule};

/// A loaded module. The handles of its kernels share it, and graphs with its kernels do. The drop
/// of the last one unloads the module, behind all launches.
///
/// # Invariants
/// MODULE-1. `raw` is live, and of the device of `core`.
/// MODULE-2. Each launch of the module's functions is enqueued on a stream in `uses.streams`, or is
/// over when a fence in `uses.fences` is, or belongs to a graph that shares this value.
pub(crate) struct LoadedModule {
    core: Arc<DeviceCore>,
    raw: RawModule,
    uses: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    /// Streams that live as long as `core`, each once.
    streams: Vec<StreamRef>,
    /// The ends of uses on adopted streams, which may be destroyed before the module.
    fences: Vec<Fence>,
}

impl fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadedModule({:?})", self.raw)
    }
}

impl LoadedModule {
    /// # Safety
    /// MODULE-1 holds for `raw` and `core`, and nothing else uses or unloads the module.
    pub(super) unsafe fn new(core: Arc<DeviceCore>, raw: RawModule) -> Arc<Self> {
        Arc::new(Self {
            core,
            raw,
            uses: Mutex::default(),
        })
    }

    pub(super) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// Finds a function (`cuModuleGetFunction`).
    pub(super) fn function(&self, name: &'static str) -> DriverResult<RawFunction> {
        let name = CString::new(name).expect("an identifier has no NUL");
        // SAFETY: MODULE-1.
        unsafe { self.core.driver().module_function(self.raw, &name) }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        // Each entry is inserted in one step.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes, before a launch, that `at` uses the module. The [end](Use::end) of the use is noted
    /// behind the launch.
    pub(super) fn note_use(&self, at: StreamRef) -> Use<'_> {
        if at.is_adopted() {
            return Use(Some(Unless::new((self, at), |(module, _)| {
                module.uses().fences.push(Fence::lost(unwound("cuLaunchKernel")));
            })));
        }
        let mut uses = self.uses();
        if !uses.streams.iter().any(|known| known.id() == at.id()) {
            uses.streams.push(at);
        }
        Use(None)
    }

    /// The present end of `at`, an adopted stream, as an end of a use (`cuEventRecord`).
    fn push_end(&self, core: &DeviceCore, at: StreamRef) {
        let mut end = LastUses::default();
        end.on(core.events(), at);
        let end = end.into_fence();
        // The lock is not held during a call: on a simulated device it may run a kernel.
        let mut fences = std::mem::take(&mut self.uses().fences);
        fences.retain(|fence| !fence.query().unwrap_or(false));
        fences.push(end);
        self.uses().fences.extend(fences);
    }

    /// Notes, before a graph gives the module up, that all its launches are on `at`.
    pub(crate) fn note_graph(&self, core: &DeviceCore, at: StreamRef) {
        self.note_use(at).end(core);
    }
}

/// A use of a module on a stream. Of an adopted stream the end is not known before it is recorded:
/// if the launch or the record unwinds, the module is leaked.
///
/// Counterexample: a launch is made and unwinds. No event is recorded behind it, so the module's
/// drop would unload the kernel that is pending.
#[must_use = "a dropped use of an adopted stream leaks the module"]
pub(super) struct Use<'m>(Option<Unless<(&'m LoadedModule, StreamRef), fn((&'m LoadedModule, StreamRef))>>);

impl Use<'_> {
    /// Notes, behind a launch, that the use of an adopted stream ends at its present end
    /// (`cuEventRecord`).
    pub(super) fn end(self, core: &DeviceCore) {
        if let Some(unknown) = self.0 {
            let (module, at) = *unknown;
            module.push_end(core, at);
            unknown.take_back();
        }
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        let Uses { streams, fences } =
            std::mem::take(self.uses.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut ended = LastUses::default();
        ended.note(|ended| {
            // MODULE-2: the present ends of these streams, which `core` keeps (CORE-1).
            streams
                .into_iter()
                .for_each(|at| ended.on(self.core.events(), at));
            fences.into_iter().for_each(|fence| ended.behind(fence));
        });
        let driver = self.core.shared_driver();
        unload_behind(driver, self.raw, self.core.completion(), ended.into_fence());
    }
}

/// Unloads a module on the device's thread for closures, once a query or wait saw that `fence` is
/// over (`cuModuleUnload`, which may block). If that is never seen, the module is leaked. Does not
/// block.
fn unload_behind(driver: Arc<dyn Driver>, raw: RawModule, completion: &Completion, mut fence: Fence) {
    let over = fence.is_done();
    // A failed wait is not a finished wait (docs/soundness.md, obligation 4).
    let run = move |outcome: DriverResult<()>| {
        if outcome.is_ok() {
            // SAFETY: MODULE-1: the module is live, and its last owner is gone. MODULE-2: all
            // launches were over before `fence`, and no graph has one. An error leaks the module.
            let _ = unsafe { driver.unload_module(raw) };
        }
    };
    let Ok(done) = Done::run(completion, run) else {
        return;
    };
    if over {
        done.now();
    } else {
        // A lost fence has no event to watch: the module is then leaked.
        let _ = fence.watch(done);
    }
}
