//! [`GraphModules`]: the foreign modules whose kernels a graph launches.

use std::sync::Arc;

use crate::device::core::DeviceCore;
use crate::interop::foreign_kernels::LoadedModule;
use crate::order::stream_ref::StreamRef;

/// The modules that a graph shares, so that they stay loaded behind its last launch.
///
/// # Invariants
/// GRAPH-MODULES-1. A module with a kernel that a launch runs is in `present` or `replaced`, or was
/// told of the launch by [`LoadedModule::note_graph`]. All launches are in the order of `at`, a
/// stream of `core`.
#[derive(Debug)]
pub(super) struct GraphModules {
    present: Vec<Arc<LoadedModule>>,
    /// Only launches before an update run kernels of these.
    replaced: Vec<Arc<LoadedModule>>,
    core: Arc<DeviceCore>,
    at: StreamRef,
}

impl GraphModules {
    pub(super) fn new(present: Vec<Arc<LoadedModule>>, core: Arc<DeviceCore>, at: StreamRef) -> Self {
        Self {
            present,
            replaced: Vec::new(),
            core,
            at,
        }
    }

    /// Replaces the modules. Makes no driver call (INSTANCE-4).
    pub(super) fn replace(&mut self, modules: Vec<Arc<LoadedModule>>) {
        let old = std::mem::replace(&mut self.present, modules);
        self.replaced.extend(old);
    }

    /// Gives the replaced modules up, behind all launches so far. Does not block.
    pub(super) fn end_replaced(&mut self) {
        // Each is taken out behind its call: if the call unwinds, `drop` leaks the rest.
        while let Some(module) = self.replaced.last() {
            module.note_graph(&self.core, self.at);
            drop(self.replaced.pop());
        }
    }
}

impl Drop for GraphModules {
    /// Leaks the modules that nothing ended, as the drop of the graph's host functions does.
    fn drop(&mut self) {
        for modules in [&mut self.present, &mut self.replaced] {
            modules.drain(..).for_each(std::mem::forget);
        }
    }
}
