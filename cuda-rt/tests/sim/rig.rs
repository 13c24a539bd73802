//! A driver with short names for its calls.
//!
//! The calls are `unsafe`, because calls of a GPU are. On the simulated device a wrong order of
//! calls alone cannot be undefined behaviour: operations run one at a time, on memory that stays
//! mapped. So these wrappers are safe with handles, addresses and host memory of the same rig, in
//! any order. The tests use only those. Host memory is kept until the rig is dropped.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_rt::checker::Check;
use cuda_rt::driver::{
    Copies, DeviceAddress, DriverResult, Events, Graphs, HostMemory, Kernels, Memory, Peers, RawEvent,
    RawGraph, RawNode, RawStream, Streams,
};
use cuda_rt::driver::{CopyExtent as Rows, Pitch};
use cuda_rt::kernel::{Extent, Kernel};
use cuda_rt::simulator::{SimConfig, SimDriver, Simulator};

use crate::kernels;

/// The arguments of the kernels: an address, a number of words, an amount, and the extent.
type Arguments = (DeviceAddress, u64, u32, Extent);

fn pointers((to, words, amount, extent): &Arguments) -> [*const c_void; 4] {
    [
        (&raw const *to).cast(),
        (&raw const *words).cast(),
        (&raw const *amount).cast(),
        (&raw const *extent).cast(),
    ]
}

pub(crate) struct Rig {
    pub(crate) driver: Arc<SimDriver>,
}

/// Host memory that is never unmapped, because pending copies may use it at any time.
#[derive(Clone, Copy)]
pub(crate) struct Host(&'static HostMemory);

impl Host {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Box::leak(Box::new(HostMemory::map(bytes).expect("pages"))))
    }

    pub(crate) fn with(values: &[u32]) -> Self {
        let host = Self::new(4 * values.len());
        host.set(values);
        host
    }

    pub(crate) fn set(&self, values: &[u32]) {
        assert!(4 * values.len() <= self.0.len_bytes());
        let words = self.0.address().as_ptr().cast::<u32>();
        // SAFETY: the range was checked to be in bounds. The simulated device runs only on this
        // thread, so not at this moment.
        unsafe { words.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    }

    pub(crate) fn get(&self, len: usize) -> Vec<u32> {
        assert!(4 * len <= self.0.len_bytes());
        // SAFETY: the range was checked to be in bounds, and was mapped zeroed. No operation runs
        // while this thread is here.
        unsafe { std::slice::from_raw_parts(self.0.address().as_ptr().cast::<u32>(), len) }.to_vec()
    }

    pub(crate) fn memory(&self) -> &'static HostMemory {
        self.0
    }
}

macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        pub(crate) fn $name(&self, $($arg: $type),*) -> DriverResult<$result> {
            // SAFETY: any order of calls is sound on the simulated device; see the module's text.
            unsafe { self.driver.$name($($arg),*) }
        }
    )* };
}

impl Rig {
    /// Races are recorded and not denied: many tests race on purpose, to see the order of the work.
    pub(crate) fn new(config: SimConfig) -> Self {
        Self::with_check(config, Check::Record)
    }

    pub(crate) fn with_check(config: SimConfig, check: Check) -> Self {
        Self {
            driver: SimDriver::new(config.check(check)),
        }
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self::new(SimConfig::new().seed(seed))
    }

    pub(crate) fn sim(&self) -> &Simulator {
        self.driver.simulator().expect("simulated")
    }

    pub(crate) fn stream(&self) -> RawStream {
        self.driver.create_stream(0).unwrap()
    }

    pub(crate) fn event(&self) -> RawEvent {
        self.driver.create_event(true).unwrap()
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
        fn elapsed_ms(start: RawEvent, end: RawEvent) -> f32;
        fn alloc(bytes: usize, stream: RawStream) -> DeviceAddress;
        fn free(address: DeviceAddress, stream: RawStream) -> ();
        fn note_free(address: DeviceAddress, stream: RawStream) -> ();
        fn note_alloc(address: DeviceAddress, stream: RawStream) -> ();
        fn copy(to: DeviceAddress, from: DeviceAddress, bytes: usize, stream: RawStream) -> ();
        fn copy_rows(
            to: (DeviceAddress, Pitch),
            from: (DeviceAddress, Pitch),
            extent: Rows,
            stream: RawStream
        ) -> ();
        fn fill(to: DeviceAddress, pattern: &[u8], count: usize, stream: RawStream) -> ();
        fn register_host(memory: &HostMemory) -> ();
        fn unregister_host(memory: &HostMemory) -> ();
        fn begin_capture(stream: RawStream) -> ();
        fn end_capture(stream: RawStream) -> RawGraph;
        fn captured_node(stream: RawStream) -> RawNode;
        fn update_graph(graph: RawGraph, stream: RawStream) -> ();
        fn launch_graph(graph: RawGraph, stream: RawStream) -> ();
        fn destroy_graph(graph: RawGraph) -> ();
    }

    pub(crate) fn upload(
        &self,
        to: DeviceAddress,
        from: Host,
        words: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: any order of calls is sound on the simulated device; see the module's text.
        unsafe {
            self.driver
                .copy_to_device(to, from.0.address(), 4 * words, stream)
        }
    }

    pub(crate) fn download(
        &self,
        to: Host,
        from: DeviceAddress,
        words: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: any order of calls is sound on the simulated device; see the module's text.
        unsafe { self.driver.copy_to_host(to.0.address(), from, 4 * words, stream) }
    }

    /// Copies between two devices; one of them is the rig's.
    pub(crate) fn copy_peer(
        &self,
        to: (&SimDriver, DeviceAddress),
        from: (&SimDriver, DeviceAddress),
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let (to, from) = ((to.0.peer(), to.1), (from.0.peer(), from.1));
        // SAFETY: any order of calls is sound on the simulated device; see the module's text.
        unsafe { self.driver.copy_peer(to, from, bytes, stream) }
    }

    /// Adds `amount` to each of `words` numbers.
    pub(crate) fn add(
        &self,
        to: DeviceAddress,
        words: u64,
        amount: u32,
        stream: RawStream,
    ) -> DriverResult<()> {
        self.launch(&kernels::ADD, to, words, amount, stream)
    }

    /// Launches one of [`kernels`].
    pub(crate) fn launch(
        &self,
        kernel: &'static Kernel,
        to: DeviceAddress,
        words: u64,
        amount: u32,
        stream: RawStream,
    ) -> DriverResult<()> {
        let arguments = (to, words, amount, kernels::extent(words));
        // SAFETY: one pointer for each of the kernel's parameters.
        unsafe {
            self.driver
                .launch(kernel, &kernels::shape(words), &pointers(&arguments), stream)
        }
    }

    /// Makes a captured launch of [`kernels::ADD`] add `amount` to `words` numbers at another
    /// place.
    pub(crate) fn set_add(
        &self,
        (graph, node): (RawGraph, RawNode),
        to: DeviceAddress,
        words: u64,
        amount: u32,
    ) -> DriverResult<()> {
        let arguments = (to, words, amount, kernels::extent(words));
        // SAFETY: one pointer for each of the kernel's parameters.
        unsafe {
            self.driver.set_launch(
                graph,
                node,
                &kernels::ADD,
                &kernels::shape(words),
                &pointers(&arguments),
            )
        }
    }

    /// The values of `words` numbers on the device, after all work of `stream`.
    pub(crate) fn read(&self, from: DeviceAddress, words: usize, stream: RawStream) -> Vec<u32> {
        let host = Host::new(4 * words);
        self.download(host, from, words, stream).unwrap();
        self.synchronize_stream(stream).unwrap();
        host.get(words)
    }
}
