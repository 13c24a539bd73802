//! Raw driver calls, as a careful person writes them: one type for each handle, and nothing that
//! orders, tracks or checks work.
//!
//! The methods are not `unsafe`, but keep no order: the programs of this package, their only
//! callers, put an event at each edge. Each program declares its streams before its memory, so
//! that the streams are drained before the memory is freed.
#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

use std::alloc::{self, Layout};
use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};
use std::slice;

use cudarc::driver::sys::{self, CUresult};

#[track_caller]
pub(crate) fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// The entry of the kernel `name` in the PTX.
pub(crate) fn entry(name: &str) -> &'static str {
    let ptx = device_kernels::ptx();
    let start = format!(".visible .entry {name}__");
    let at = ptx.find(&start).expect("the package has the kernel") + ".visible .entry ".len();
    ptx[at..].split('(').next().expect("a name")
}

/// Threads of a block, as `Grid1::covering` has them.
pub(crate) const BLOCK: u32 = 256;

/// The primary context of the first GPU, and the kernels in it. It lives as long as the process.
pub(crate) struct Raw {
    context: sys::CUcontext,
    scale: sys::CUfunction,
    add: sys::CUfunction,
}

// SAFETY: CUDA's handles may be used on each thread.
unsafe impl Send for Raw {}
// SAFETY: CUDA's functions may be called from several threads with the same handles.
unsafe impl Sync for Raw {}

impl Raw {
    pub(crate) fn open() -> &'static Self {
        // SAFETY: the call has no preconditions.
        ok(unsafe { sys::cuInit(0) });
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the pointer is to a live device number.
        ok(unsafe { sys::cuDeviceGet(&mut device, 0) });
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) });
        // SAFETY: the context was retained, and is never released.
        ok(unsafe { sys::cuCtxSetCurrent(context) });
        let text = CString::new(device_kernels::ptx()).expect("no NUL");
        let mut module = ptr::null_mut();
        // SAFETY: the text ends in a NUL.
        ok(unsafe { sys::cuModuleLoadData(&mut module, text.as_ptr().cast()) });
        let function = |name| {
            let entry = CString::new(entry(name)).expect("no NUL");
            let mut function = ptr::null_mut();
            // SAFETY: the module is live, and the text ends in a NUL.
            ok(unsafe { sys::cuModuleGetFunction(&mut function, module, entry.as_ptr()) });
            function
        };
        Box::leak(Box::new(Self {
            context,
            scale: function("scale"),
            add: function("add"),
        }))
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn bind(&self) {
        // SAFETY: the context was retained, and is never released.
        ok(unsafe { sys::cuCtxSetCurrent(self.context) });
    }

    /// `output = input * factor`.
    pub(crate) fn scale(&self, stream: &Stream, input: &Memory, output: &Memory, factor: f32) {
        let extent = [output.len, 1, 1];
        let mut parameters = [
            address(&input.address),
            address(&input.len),
            address(&output.address),
            address(&output.len),
            address(&factor),
            address(&extent),
        ];
        launch(self.scale, output.len, stream, &mut parameters);
    }

    /// `sum = left + right`.
    pub(crate) fn add(&self, stream: &Stream, left: &Memory, right: &Memory, sum: &Memory) {
        let extent = [sum.len, 1, 1];
        let mut parameters = [
            address(&left.address),
            address(&left.len),
            address(&right.address),
            address(&right.len),
            address(&sum.address),
            address(&sum.len),
            address(&extent),
        ];
        launch(self.add, sum.len, stream, &mut parameters);
    }
}

fn address<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast()
}

/// The parameters are the kernel's, and live.
fn launch(function: sys::CUfunction, threads: u64, stream: &Stream, parameters: &mut [*mut c_void]) {
    let blocks = threads.div_ceil(u64::from(BLOCK)) as u32;
    let (parameters, none) = (parameters.as_mut_ptr(), ptr::null_mut());
    // SAFETY: `Raw` launches its own kernels only, with parameters of their types; memory and
    // stream are live.
    ok(unsafe { sys::cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream.0, parameters, none) });
}

/// A stream that does not wait for the default stream.
pub(crate) struct Stream(sys::CUstream);

// SAFETY: CUDA's handles may be used on each thread.
unsafe impl Send for Stream {}
// SAFETY: CUDA's functions may be called from several threads with the same handles.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new() -> Self {
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuStreamCreate(&mut stream, flags) });
        Self(stream)
    }

    pub(crate) fn synchronize(&self) {
        // SAFETY: the stream is live.
        ok(unsafe { sys::cuStreamSynchronize(self.0) });
    }

    pub(crate) fn record(&self, event: &Event) {
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuEventRecord(event.0, self.0) });
    }

    pub(crate) fn wait(&self, event: &Event) {
        // SAFETY: the handles are live; 0 is the only flag.
        ok(unsafe { sys::cuStreamWaitEvent(self.0, event.0, 0) });
    }

    /// Copies all elements.
    pub(crate) fn upload(&self, from: &Pinned, to: &Memory) {
        assert_eq!(from.len as u64, to.len);
        let (source, bytes) = (from.start.as_ptr().cast(), to.bytes());
        // SAFETY: both blocks have that many bytes, and are live.
        ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to.address, source, bytes, self.0) });
    }

    /// Copies the elements from `first` on, as many as `to` has.
    pub(crate) fn download(&self, from: &Memory, first: u64, to: &Pinned) {
        assert!(first + to.len as u64 <= from.len);
        let source = from.address + first * size_of::<f32>() as u64;
        let (target, bytes) = (to.start.as_ptr().cast(), to.len * size_of::<f32>());
        // SAFETY: both blocks have that many bytes, and are live.
        ok(unsafe { sys::cuMemcpyDtoHAsync_v2(target, source, bytes, self.0) });
    }

    /// Copies all elements within the device.
    pub(crate) fn copy(&self, from: &Memory, to: &Memory) {
        assert_eq!(from.len, to.len);
        // SAFETY: both blocks have that many bytes, and are live.
        ok(unsafe { sys::cuMemcpyDtoDAsync_v2(to.address, from.address, to.bytes(), self.0) });
    }

    /// Allocates from the default pool in the stream's order, and frees at once.
    pub(crate) fn alloc_and_free(&self, bytes: usize) {
        let mut address = 0;
        // SAFETY: the pointer is to a live address, and the stream is live.
        ok(unsafe { sys::cuMemAllocAsync(&mut address, bytes, self.0) });
        // SAFETY: the memory was allocated just now, and nothing uses it.
        ok(unsafe { sys::cuMemFreeAsync(address, self.0) });
    }

    /// Captures what `body` enqueues here.
    pub(crate) fn capture(&self, body: impl FnOnce()) -> Graph {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live.
        ok(unsafe { sys::cuStreamBeginCapture_v2(self.0, mode) });
        body();
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is live, and being captured.
        ok(unsafe { sys::cuStreamEndCapture(self.0, &mut graph) });
        // SAFETY: the graph is live, and the pointer is to a live handle.
        ok(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
        Graph { graph, executable }
    }

    pub(crate) fn replay(&self, graph: &Graph) {
        // SAFETY: the handles and the memory in the graph are live.
        ok(unsafe { sys::cuGraphLaunch(graph.executable, self.0) });
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.synchronize();
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuStreamDestroy_v2(self.0) });
    }
}

/// An event without a time.
pub(crate) struct Event(sys::CUevent);

// SAFETY: CUDA's handles may be used on each thread.
unsafe impl Send for Event {}

impl Event {
    pub(crate) fn new() -> Self {
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuEventCreate(&mut event, flags) });
        Self(event)
    }

    /// Blocks the host. An event that was never recorded counts as done.
    pub(crate) fn synchronize(&self) {
        // SAFETY: the handle is live.
        ok(unsafe { sys::cuEventSynchronize(self.0) });
    }

    /// As [`synchronize`](Self::synchronize), with the calls that cuda-rt makes around it: the wait
    /// is kept apart from captures of other code.
    pub(crate) fn synchronize_apart(&self) {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        ok(unsafe { sys::cuCtxGetCurrent(&mut context) });
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a live mode.
        ok(unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) });
        self.synchronize();
        // SAFETY: the pointer is to a live mode, the thread's own from before.
        ok(unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) });
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuEventDestroy_v2(self.0) });
    }
}

/// Device memory for `f32`.
pub(crate) struct Memory {
    address: sys::CUdeviceptr,
    len: u64,
}

impl Memory {
    /// Not written yet.
    pub(crate) fn new(len: usize) -> Self {
        let mut address = 0;
        // SAFETY: the pointer is to a live address.
        ok(unsafe { sys::cuMemAlloc_v2(&mut address, len * size_of::<f32>()) });
        let len = len as u64;
        Self { address, len }
    }

    fn bytes(&self) -> usize {
        self.len as usize * size_of::<f32>()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory is live and not used again: streams were drained before.
        ok(unsafe { sys::cuMemFree_v2(self.address) });
    }
}

/// Pinned host memory for `f32`.
pub(crate) struct Pinned {
    start: NonNull<f32>,
    len: usize,
    /// The layout of memory that Rust allocated, and CUDA registered. Otherwise CUDA allocated it.
    registered: Option<Layout>,
}

// SAFETY: the value owns its memory.
unsafe impl Send for Pinned {}

impl Pinned {
    /// All elements are 0.
    pub(crate) fn new(len: usize) -> Self {
        let mut start = ptr::null_mut();
        // SAFETY: the pointer is to a live address.
        ok(unsafe { sys::cuMemHostAlloc(&mut start, len * size_of::<f32>(), 0) });
        let start = NonNull::new(start.cast::<f32>()).expect("an address");
        // SAFETY: the block has room for `len` elements, whose bits may all be 0.
        unsafe { start.write_bytes(0, len) };
        Self {
            start,
            len,
            registered: None,
        }
    }

    /// Memory of the host that CUDA page-locks where it is (`cuMemHostRegister`), as cuda-rt's. All
    /// elements are 0.
    pub(crate) fn registered(len: usize) -> Self {
        let layout = Layout::from_size_align(len * size_of::<f32>(), 4096).expect("a small size");
        assert!(layout.size() > 0);
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).expect("an address");
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the memory is live, and not registered yet.
        ok(unsafe { sys::cuMemHostRegister_v2(start.as_ptr().cast(), layout.size(), flags) });
        Self {
            start: start.cast(),
            len,
            registered: Some(layout),
        }
    }

    /// # Safety
    /// No enqueued work that writes the memory is unfinished.
    pub(crate) unsafe fn get(&self) -> &[f32] {
        // SAFETY: the block has `len` elements, which were written at first, and nothing writes
        // them now.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// # Safety
    /// No enqueued work that uses the memory is unfinished.
    pub(crate) unsafe fn get_mut(&mut self) -> &mut [f32] {
        // SAFETY: the block has `len` elements, which were written at first, and nothing else uses
        // them now.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let start = self.start.as_ptr();
        let Some(layout) = self.registered else {
            // SAFETY: the memory is live and not used again: streams were drained before.
            ok(unsafe { sys::cuMemFreeHost(start.cast()) });
            return;
        };
        // SAFETY: the memory is registered, and no GPU uses it: streams were drained before.
        ok(unsafe { sys::cuMemHostUnregister(start.cast()) });
        // SAFETY: the memory was allocated with this layout, and is not used again.
        unsafe { alloc::dealloc(start.cast(), layout) };
    }
}

/// A captured graph, and its executable.
pub(crate) struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuGraphExecDestroy(self.executable) });
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuGraphDestroy(self.graph) });
    }
}
