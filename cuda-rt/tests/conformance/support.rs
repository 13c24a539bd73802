//! The driver's handles with owners, so that the cases read like the behaviour they test.
//!
//! By the suite's convention the functions here are safe. A [`Rig`] keeps every stream, event and
//! block alive until its case is over, and then waits for all of them. Ranges are checked. The
//! cases order conflicting accesses, because they test that order.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cuda_rt::driver::{
    Backend, DeviceAddress, Driver, DriverResult, HostMemory, RawEvent, RawGraph, RawNode, RawStream,
};
use cuda_rt::driver::{CopyExtent, Pitch};
use cuda_rt::kernel::{Extent, LaunchShape};

use crate::fixtures::{STEP, Step};

/// The longest time that a case waits for a GPU.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clock cycles that take a GPU some milliseconds: a missing wait then shows.
pub(crate) const SLOW: u64 = 10_000_000;

/// Everything that a case makes on a driver, kept until the case is over.
pub(crate) struct Rig {
    pub(crate) driver: Arc<dyn Driver>,
    streams: RefCell<Vec<RawStream>>,
    events: RefCell<Vec<RawEvent>>,
    blocks: RefCell<Vec<DeviceAddress>>,
    hosts: RefCell<Vec<HostMemory>>,
}

/// Device memory of a rig.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) address: DeviceAddress,
    pub(crate) bytes: usize,
}

impl Block {
    /// The part from `start` on, of `bytes` bytes.
    #[track_caller]
    pub(crate) fn part(self, start: usize, bytes: usize) -> Self {
        assert!(start + bytes <= self.bytes);
        Self {
            address: DeviceAddress(self.address.0 + start as u64),
            bytes,
        }
    }
}

/// Page-locked host memory of a rig.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) address: NonNull<c_void>,
    pub(crate) bytes: usize,
}

impl Host {
    #[track_caller]
    pub(crate) fn part(self, start: usize, bytes: usize) -> Self {
        assert!(start + bytes <= self.bytes);
        // SAFETY: the part was just checked to lie inside one mapping.
        let address = unsafe { self.address.byte_add(start) };
        Self { address, bytes }
    }

    pub(crate) fn write(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: the memory is mapped for that many bytes. By the suite's convention no pending
        // work uses it.
        unsafe {
            self.address
                .cast()
                .copy_from_nonoverlapping(NonNull::from(bytes).cast::<u8>(), bytes.len())
        }
    }

    pub(crate) fn read(self) -> Vec<u8> {
        let mut bytes = vec![0_u8; self.bytes];
        // SAFETY: the memory is mapped for that many bytes. By the suite's convention no pending
        // work writes it.
        unsafe {
            NonNull::from(&mut bytes[..])
                .cast::<u8>()
                .copy_from_nonoverlapping(self.address.cast(), bytes.len())
        };
        bytes
    }

    pub(crate) fn words(self) -> Vec<u32> {
        words(&self.read())
    }
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
        .collect()
}

#[track_caller]
fn poll(mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "not done after {PATIENCE:?}");
        std::thread::yield_now();
    }
}

impl Rig {
    pub(crate) fn new(driver: &Arc<dyn Driver>) -> Self {
        Self {
            driver: Arc::clone(driver),
            streams: RefCell::default(),
            events: RefCell::default(),
            blocks: RefCell::default(),
            hosts: RefCell::default(),
        }
    }

    pub(crate) fn is_cuda(&self) -> bool {
        self.driver.properties().backend == Backend::Cuda
    }

    #[track_caller]
    pub(crate) fn stream(&self) -> RawStream {
        let stream = self.driver.create_stream(0).expect("create a stream");
        self.streams.borrow_mut().push(stream);
        stream
    }

    #[track_caller]
    pub(crate) fn event(&self) -> RawEvent {
        self.new_event(false)
    }

    #[track_caller]
    pub(crate) fn timing_event(&self) -> RawEvent {
        self.new_event(true)
    }

    #[track_caller]
    fn new_event(&self, timing: bool) -> RawEvent {
        let event = self.driver.create_event(timing).expect("create an event");
        self.events.borrow_mut().push(event);
        event
    }

    /// Zeroed, page-locked host memory.
    #[track_caller]
    pub(crate) fn host(&self, bytes: usize) -> Host {
        let memory = HostMemory::map(bytes).expect("map host memory");
        // SAFETY: the memory was just mapped; `drop` unregisters it before it is unmapped.
        unsafe { self.driver.register_host(&memory) }.expect("register host memory");
        let address = memory.address();
        self.hosts.borrow_mut().push(memory);
        Host { address, bytes }
    }

    #[track_caller]
    pub(crate) fn host_with(&self, bytes: &[u8]) -> Host {
        let host = self.host(bytes.len());
        host.write(bytes);
        host
    }

    /// A block that is freed when the case is over.
    #[track_caller]
    pub(crate) fn block(&self, bytes: usize, stream: RawStream) -> Block {
        let block = self.alloc(bytes, stream).expect("allocate");
        self.blocks.borrow_mut().push(block.address);
        block
    }

    /// A block that holds zeros.
    #[track_caller]
    pub(crate) fn zeroed(&self, bytes: usize, stream: RawStream) -> Block {
        let block = self.block(bytes, stream);
        self.fill(block, &[0], stream);
        block
    }

    /// A block that the case itself frees.
    pub(crate) fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<Block> {
        // SAFETY: the rig's streams are live.
        let address = unsafe { self.driver.alloc(bytes, stream) }?;
        Ok(Block { address, bytes })
    }

    #[track_caller]
    pub(crate) fn free(&self, block: Block, stream: RawStream) {
        // SAFETY: the block came from `alloc`. By the suite's convention its last use is ordered
        // before this place.
        unsafe { self.driver.free(block.address, stream) }.expect("free");
    }

    #[track_caller]
    pub(crate) fn fill(&self, block: Block, pattern: &[u8], stream: RawStream) {
        let count = block.bytes / pattern.len();
        // SAFETY: `count` patterns fit into the block; the rig keeps it live.
        unsafe { self.driver.fill(block.address, pattern, count, stream) }.expect("fill");
    }

    #[track_caller]
    pub(crate) fn upload(&self, to: Block, from: Host, stream: RawStream) {
        assert_eq!(to.bytes, from.bytes);
        // SAFETY: both were checked to have this length; the rig keeps them live.
        unsafe {
            self.driver
                .copy_to_device(to.address, from.address, to.bytes, stream)
        }
        .expect("upload");
    }

    #[track_caller]
    pub(crate) fn download(&self, to: Host, from: Block, stream: RawStream) {
        assert_eq!(to.bytes, from.bytes);
        // SAFETY: both were checked to have this length; the rig keeps them live.
        unsafe {
            self.driver
                .copy_to_host(to.address, from.address, to.bytes, stream)
        }
        .expect("download");
    }

    #[track_caller]
    pub(crate) fn copy(&self, to: Block, from: Block, stream: RawStream) {
        assert_eq!(to.bytes, from.bytes);
        // SAFETY: both were checked to have this length; the rig keeps them live.
        unsafe { self.driver.copy(to.address, from.address, to.bytes, stream) }.expect("copy");
    }

    /// Copies rows from one block to another. `to` and `from` are blocks and pitches.
    #[track_caller]
    pub(crate) fn copy_rows(
        &self,
        (to, to_pitch): (Block, Pitch),
        (from, from_pitch): (Block, Pitch),
        extent: CopyExtent,
        stream: RawStream,
    ) {
        assert!(extent.span_bytes(to_pitch) <= to.bytes && extent.span_bytes(from_pitch) <= from.bytes);
        let (to, from) = ((to.address, to_pitch), (from.address, from_pitch));
        // SAFETY: the rows were checked to be in bounds; the rig keeps both blocks live.
        unsafe { self.driver.copy_rows(to, from, extent, stream) }.expect("copy rows");
    }

    #[track_caller]
    pub(crate) fn upload_rows(
        &self,
        (to, to_pitch): (Block, Pitch),
        (from, from_pitch): (Host, Pitch),
        extent: CopyExtent,
        stream: RawStream,
    ) {
        assert!(extent.span_bytes(to_pitch) <= to.bytes && extent.span_bytes(from_pitch) <= from.bytes);
        let (to, from) = ((to.address, to_pitch), (from.address, from_pitch));
        // SAFETY: as in `copy_rows`.
        unsafe { self.driver.copy_rows_to_device(to, from, extent, stream) }.expect("upload rows");
    }

    #[track_caller]
    pub(crate) fn download_rows(
        &self,
        (to, to_pitch): (Host, Pitch),
        (from, from_pitch): (Block, Pitch),
        extent: CopyExtent,
        stream: RawStream,
    ) {
        assert!(extent.span_bytes(to_pitch) <= to.bytes && extent.span_bytes(from_pitch) <= from.bytes);
        let (to, from) = ((to.address, to_pitch), (from.address, from_pitch));
        // SAFETY: as in `copy_rows`.
        unsafe { self.driver.copy_rows_to_host(to, from, extent, stream) }.expect("download rows");
    }

    #[track_caller]
    pub(crate) fn record(&self, event: RawEvent, stream: RawStream) {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.record_event(event, stream) }.expect("record");
    }

    #[track_caller]
    pub(crate) fn wait(&self, stream: RawStream, event: RawEvent) {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.wait_event(stream, event) }.expect("wait");
    }

    #[track_caller]
    pub(crate) fn query(&self, event: RawEvent) -> bool {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.query_event(event) }.expect("query")
    }

    /// Queries until the event is done.
    #[track_caller]
    pub(crate) fn poll(&self, event: RawEvent) {
        poll(|| self.query(event));
    }

    #[track_caller]
    pub(crate) fn query_stream(&self, stream: RawStream) -> bool {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.query_stream(stream) }.expect("query a stream")
    }

    /// Queries until all work of the stream is done.
    #[track_caller]
    pub(crate) fn poll_stream(&self, stream: RawStream) {
        poll(|| self.query_stream(stream));
    }

    #[track_caller]
    pub(crate) fn synchronize_event(&self, event: RawEvent) {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.synchronize_event(event) }.expect("synchronize with an event");
    }

    #[track_caller]
    pub(crate) fn synchronize(&self, stream: RawStream) {
        // SAFETY: the rig keeps its handles live.
        unsafe { self.driver.synchronize_stream(stream) }.expect("synchronize with a stream");
    }

    /// Computes `data[i] = data[i] * factor + term` for every `u32` of the block, after `cycles`
    /// clock cycles.
    #[track_caller]
    pub(crate) fn step(&self, data: Block, cycles: u64, factor: u32, term: u32, stream: RawStream) {
        let length = (data.bytes / 4) as u64;
        let extent = Extent {
            x: length,
            y: 1,
            z: 1,
        };
        let parameters = Step {
            data,
            length,
            cycles,
            factor,
            term,
            extent,
        };
        // SAFETY: the parameters are the kernel's, and the block is live.
        let launched = unsafe {
            self.driver
                .launch(&STEP, &shape(extent), &parameters.pointers(), stream)
        };
        launched.expect("launch");
    }

    /// The contents of the block once the stream has reached this place. Blocks the host.
    #[track_caller]
    pub(crate) fn read(&self, block: Block, stream: RawStream) -> Vec<u8> {
        let host = self.host(block.bytes);
        self.download(host, block, stream);
        self.synchronize(stream);
        host.read()
    }

    #[track_caller]
    pub(crate) fn read_words(&self, block: Block, stream: RawStream) -> Vec<u32> {
        words(&self.read(block, stream))
    }

    #[track_caller]
    pub(crate) fn begin_capture(&self, stream: RawStream) {
        // SAFETY: the rig keeps its streams live, and the case uses this one only for the capture.
        unsafe { self.driver.begin_capture(stream) }.expect("begin a capture");
    }

    pub(crate) fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        // SAFETY: the case began the capture with `begin_capture`.
        unsafe { self.driver.end_capture(stream) }
    }

    pub(crate) fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        // SAFETY: the rig keeps its streams live.
        unsafe { self.driver.captured_node(stream) }
    }

    pub(crate) fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the case began the capture with `begin_capture`; the graph is live, and only this
        // thread uses it. A case whose calls differ from the first capture expects an error, and no
        // case allocates.
        unsafe { self.driver.update_graph(graph, stream) }
    }

    /// Replaces the parameters of a captured [`step`](Self::step).
    #[track_caller]
    pub(crate) fn set_step(
        &self,
        (graph, node): (RawGraph, RawNode),
        data: Block,
        cycles: u64,
        factor: u32,
        term: u32,
    ) {
        let extent = Extent {
            x: (data.bytes / 4) as u64,
            y: 1,
            z: 1,
        };
        let parameters = Step {
            data,
            length: extent.x,
            cycles,
            factor,
            term,
            extent,
        };
        // SAFETY: the parameters are the kernel's. The graph and the block are live, and only this
        // thread uses the graph.
        let set = unsafe {
            self.driver
                .set_launch(graph, node, &STEP, &shape(extent), &parameters.pointers())
        };
        set.expect("set a launch");
    }

    #[track_caller]
    pub(crate) fn launch_graph(&self, graph: RawGraph, stream: RawStream) {
        // SAFETY: both handles are live, and the rig keeps the graph's memory live.
        unsafe { self.driver.launch_graph(graph, stream) }.expect("launch a graph");
    }

    #[track_caller]
    pub(crate) fn destroy_graph(&self, graph: RawGraph) {
        // SAFETY: the graph is live, and not used again.
        unsafe { self.driver.destroy_graph(graph) }.expect("destroy a graph");
    }
}

impl Drop for Rig {
    /// Waits for all work, and frees everything. Errors are dropped: after a trap every call fails.
    fn drop(&mut self) {
        let streams = self.streams.take();
        let mut idle = true;
        for &stream in &streams {
            // SAFETY: the stream is destroyed only below.
            idle &= unsafe { self.driver.synchronize_stream(stream) }.is_ok();
        }
        for memory in self.hosts.take() {
            // SAFETY: `host` registered the memory, and no work uses it, because all streams are
            // idle. If one is not idle, the memory is leaked below.
            let unregistered = idle && unsafe { self.driver.unregister_host(&memory) }.is_ok();
            if !unregistered {
                std::mem::forget(memory);
            }
        }
        for address in self.blocks.take() {
            // SAFETY: the block came from `alloc` in `block`, and no work uses it, because all
            // streams are idle.
            let _ = unsafe { self.driver.free(address, streams[0]) };
        }
        for event in self.events.take() {
            // SAFETY: the event is live, and not used again.
            let _ = unsafe { self.driver.destroy_event(event) };
        }
        for stream in streams {
            // SAFETY: the stream is live, and not used again.
            let _ = unsafe { self.driver.destroy_stream(stream) };
        }
    }
}

/// A grid of blocks of 128 threads along x that covers the extent.
pub(crate) fn shape(extent: Extent) -> LaunchShape {
    const BLOCK: u64 = 128;
    LaunchShape {
        grid: [
            u32::try_from(extent.x.div_ceil(BLOCK))
                .expect("a small grid")
                .max(1),
            1,
            1,
        ],
        block: [BLOCK as u32, 1, 1],
        shared_bytes: 0,
        extent,
    }
}
