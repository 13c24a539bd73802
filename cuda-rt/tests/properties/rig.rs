//! A simulated device with calls that are safe to make in any order.
//!
//! The calls are `unsafe`, because calls of a GPU are. On the simulated device no order of them is
//! undefined behaviour: stale handles are errors, and operations run one at a time, on memory that
//! stays mapped. The replay must ensure two things: ranges lie in bounds, as they did when they
//! were recorded, and host memory is kept until the device is gone.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cuda_rt::checker::{AccessKind, Check};
use cuda_rt::driver::{
    CallSite, Copies, CopyExtent, DeviceAddress, DriverResult, Events, Graphs, Hint, HostMemory, Kernels,
    Location, Managed, Memory, Peers, Pitch, RawEvent, RawGraph, RawPeer, RawStream, Streams, Tools,
};
use cuda_rt::kernel::{Kernel, LaunchShape};
use cuda_rt::simulator::{SimConfig, SimDriver, Simulator};

#[derive(Clone)]
pub(crate) struct Rig(pub(crate) Arc<SimDriver>);

macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        pub(crate) fn $name(&self, $($arg: $type),*) -> DriverResult<$result> {
            // SAFETY: any order of calls is sound on the simulated device; see the module's text.
            unsafe { self.0.$name($($arg),*) }
        }
    )* };
}

impl Rig {
    /// Races are recorded, not denied: a replay continues after the first.
    /// The two devices are of one host, and reach each other's memory.
    pub(crate) fn two(config: &SimConfig) -> [Self; 2] {
        let first = SimDriver::new(config.clone().check(Check::Record));
        let second = first.another();
        for (one, other) in [(&first, &second), (&second, &first)] {
            one.peer_access(other.peer()).expect("devices of one host");
        }
        [Self(first), Self(second)]
    }

    pub(crate) fn simulator(&self) -> &Simulator {
        self.0.simulator().expect("simulated")
    }

    /// The host has the memory from here on. On a simulated device work runs only during calls, so
    /// this call also gives work a chance to run.
    pub(crate) fn note_host_access(&self, address: NonNull<c_void>, bytes: usize, access: AccessKind) {
        self.0.memory_info().expect("no fault");
        let passed = CallSite::here("replay");
        self.0.hint(Hint::HostAccess {
            address,
            bytes,
            access,
            passed,
        });
    }

    forward! {
        fn destroy_stream(stream: RawStream) -> ();
        fn synchronize_stream(stream: RawStream) -> ();
        fn query_stream(stream: RawStream) -> bool;
        fn wait_event(stream: RawStream, event: RawEvent) -> ();
        fn destroy_event(event: RawEvent) -> ();
        fn record_event(event: RawEvent, stream: RawStream) -> ();
        fn query_event(event: RawEvent) -> bool;
        fn synchronize_event(event: RawEvent) -> ();
        fn alloc(bytes: usize, stream: RawStream) -> DeviceAddress;
        fn free(address: DeviceAddress, stream: RawStream) -> ();
        fn note_free(address: DeviceAddress, stream: RawStream) -> ();
        fn note_alloc(address: DeviceAddress, stream: RawStream) -> ();
        fn register_host(memory: &HostMemory) -> ();
        fn unregister_host(memory: &HostMemory) -> ();
        fn copy_to_device(to: DeviceAddress, from: NonNull<c_void>, bytes: usize, stream: RawStream) -> ();
        fn copy_to_host(to: NonNull<c_void>, from: DeviceAddress, bytes: usize, stream: RawStream) -> ();
        fn copy(to: DeviceAddress, from: DeviceAddress, bytes: usize, stream: RawStream) -> ();
        fn copy_rows_to_device(
            to: (DeviceAddress, Pitch),
            from: (NonNull<c_void>, Pitch),
            extent: CopyExtent,
            stream: RawStream
        ) -> ();
        fn copy_rows_to_host(
            to: (NonNull<c_void>, Pitch),
            from: (DeviceAddress, Pitch),
            extent: CopyExtent,
            stream: RawStream
        ) -> ();
        fn copy_rows(
            to: (DeviceAddress, Pitch),
            from: (DeviceAddress, Pitch),
            extent: CopyExtent,
            stream: RawStream
        ) -> ();
        fn copy_peer(
            to: (RawPeer, DeviceAddress),
            from: (RawPeer, DeviceAddress),
            bytes: usize,
            stream: RawStream
        ) -> ();
        fn free_managed(address: NonNull<c_void>) -> ();
        fn prefetch(address: NonNull<c_void>, bytes: usize, to: Location, stream: RawStream) -> ();
        fn fill(to: DeviceAddress, pattern: &[u8], count: usize, stream: RawStream) -> ();
        fn launch(
            kernel: &'static Kernel,
            shape: &LaunchShape,
            parameters: &[*const c_void],
            stream: RawStream
        ) -> ();
        fn begin_capture(stream: RawStream) -> ();
        fn end_capture(stream: RawStream) -> RawGraph;
        fn launch_graph(graph: RawGraph, stream: RawStream) -> ();
        fn destroy_graph(graph: RawGraph) -> ();
    }
}
