//! Measures chains of small kernels, launched one by one and replayed as graphs, and the cost of
//! changing a graph, on the first GPU: `cargo bench -p cuda-handoff --bench graph`.
//!
//! Every way runs the kernel `device_kernels::scale` over 1024 elements, so a launch takes longer
//! than the kernel. Raw ways call the driver with the same kernel, memory of the same size and the
//! same stream. The figures are as in `overhead`: medians over rounds, and ratios to the first way
//! of each group, round by round. Without a GPU it measures nothing, and says so.
#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

mod ways;

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;

use cuda_rt::driver::DeviceAddress;
use cuda_rt::driver_cuda::CudaDriver;
use cuda_rt::kernel::Extent;
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Graph, Grid1, Idle, Live, Result, Stream, StreamTag};
use cudarc::driver::sys::{self, CUresult};
use device_kernels::scale;
use ways::Group;

/// Elements that each kernel works on.
const LEN: usize = 1024;
/// The numbers of kernels in a chain.
const CHAINS: [usize; 4] = [5, 20, 50, 100];
const ROUNDS: usize = 301;
const PTX: &str = include_str!("../../device-kernels/ptx/device_kernels.ptx");

cuda_rt::streams! {
    Compute;
}

#[track_caller]
fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

fn main() {
    match CudaDriver::open(0) {
        Ok(_) => Device::with_gpu(0, |gpu| measure(&gpu)).expect("the GPU that the driver has open"),
        Err(why) if std::env::var_os("CUDA_RT_REQUIRE_GPU").is_some() => panic!("{why}"),
        Err(why) => println!("SKIPPED, nothing was measured: {why}"),
    }
}

fn measure<D: Live>(gpu: &Device<D>) {
    let properties = gpu.properties();
    println!("{} (driver {})", properties.name, properties.driver_version);
    let mut json = Vec::new();
    for links in CHAINS {
        run(gpu, links, &mut json).expect("no call fails");
        change(gpu, links, &mut json).expect("no call fails");
    }
    println!("[{}]", json.join(","));
}

/// Launches `links` kernels. Each reads the elements that the kernel before it wrote.
fn chain<S: StreamTag>(
    stream: &Stream<S>,
    x: &mut DeviceSlice<f32, S>,
    y: &mut DeviceSlice<f32, S>,
    links: usize,
    factor: f32,
) -> Result<()> {
    let (mut from, mut to) = (x, y);
    for _ in 0..links {
        scale(stream, Grid1::covering(LEN), from, to, factor)?;
        std::mem::swap(&mut from, &mut to);
    }
    Ok(())
}

type Pair<D> = (DeviceBuffer<f32, Idle<D>>, DeviceBuffer<f32, Idle<D>>);
type OnCompute<D> = (DeviceBuffer<f32, Compute<D>>, DeviceBuffer<f32, Compute<D>>);

fn pair<D: Live>(compute: &Stream<Compute<D>>) -> Result<OnCompute<D>> {
    Ok((compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?))
}

fn captured<D: Live>(
    compute: &Stream<Compute<D>>,
    bundle: OnCompute<D>,
    links: usize,
) -> Result<Graph<Pair<D>, Compute<D>>> {
    compute.capture(bundle, |stream, (mut x, mut y)| {
        chain(stream, &mut x, &mut y, links, 1.0)
    })
}

/// Measures the time to enqueue a chain, to run one chain alone, and to run many chains.
fn run<D: Live>(gpu: &Device<D>, links: usize, json: &mut Vec<String>) -> Result<()> {
    let compute = gpu.stream::<Compute<D>>()?;
    let settle = || compute.synchronize().expect("synchronize");
    let raw_pair = pair(&compute)?;
    settle();
    let raw = Raw::new(&compute, &raw_pair, links);
    let graph = RefCell::new(captured(&compute, pair(&compute)?, links)?);
    let typed_pair = RefCell::new(pair(&compute)?);
    let typed = || {
        let (x, y) = &mut *typed_pair.borrow_mut();
        chain(&compute, x, y, links, 1.0).expect("launch");
    };
    let replay = || graph.borrow_mut().launch(&compute).expect("launch");
    let group = |name| {
        Group::new(name)
            .way("raw launches, one by one", || raw.chain(raw.stream, 1.0))
            .way("typed launches, one by one", typed)
            .way("raw cuGraphLaunch", || raw.replay())
            .way("Graph::launch", replay)
    };
    // Names live as long as the program: there are few.
    let name = |what: &str| -> &'static str { format!("chain of {links} kernels, {what}").leak() };
    let mut enqueue = group(name("host time to enqueue it"));
    enqueue.run((200 / links as u32).max(2), &settle);
    enqueue.report(json);
    let mut alone = group(name("enqueued and waited for, alone"));
    alone.run_to_the_end(ROUNDS, 1, &settle);
    alone.report(json);
    let mut many = group(name("one of many, to the end of all"));
    many.run_to_the_end(ROUNDS, (1000 / links as u32).max(10), &settle);
    many.report(json);
    Ok(())
}

/// Measures the host time to change a graph of a chain. No way launches the changed graph.
fn change<D: Live>(gpu: &Device<D>, links: usize, json: &mut Vec<String>) -> Result<()> {
    let compute = gpu.stream::<Compute<D>>()?;
    let settle = || compute.synchronize().expect("synchronize");
    let raw_pair = pair(&compute)?;
    settle();
    let raw = Raw::new(&compute, &raw_pair, links);
    let mut anew = Some(pair(&compute)?);
    let (mut one, mut all, mut same) = (
        captured(&compute, pair(&compute)?, links)?,
        captured(&compute, pair(&compute)?, links)?,
        captured(&compute, pair(&compute)?, links)?,
    );
    let (mut swapped, mut spare) = (captured(&compute, pair(&compute)?, links)?, Some(pair(&compute)?));
    let mut copied = compute.capture(pair(&compute)?, |stream, (mut x, mut y)| {
        stream.fill(&mut x, 0.0)?;
        chain(stream, &mut x, &mut y, links, 1.0)
    })?;
    let (mut step, mut steps, mut fills) = (0.0_f32, 0.0_f32, 0.0_f32);
    let mut group = Group::new(format!("changing a graph of {links} kernels").leak())
        .way("raw capture and instantiation anew", || {
            raw.destroy(raw.capture_anew(1.0))
        })
        .way("Stream::capture anew", || {
            let graph = captured(&compute, anew.take().expect("there"), links).expect("capture");
            anew = Some(graph.into_inner());
        })
        .way("raw cuGraphExecKernelNodeSetParams, one node", || raw.set(0, 1.0))
        .way("Graph::update, a scalar of one launch", || {
            step += 1.0;
            one.update(|stream, (mut x, mut y)| {
                scale(stream, Grid1::covering(LEN), &x, &mut y, step)?;
                chain(stream, &mut y, &mut x, links - 1, 1.0)
            })
            .expect("update");
        })
        .way("Graph::update, nothing changed", || {
            same.update(|stream, (mut x, mut y)| chain(stream, &mut x, &mut y, links, 1.0))
                .expect("update");
        })
        .way("raw cuGraphExecKernelNodeSetParams, all nodes", || {
            (0..links).for_each(|node| raw.set(node, 1.0));
        })
        .way("Graph::update, a scalar of every launch", || {
            steps += 1.0;
            all.update(|stream, (mut x, mut y)| chain(stream, &mut x, &mut y, links, steps))
                .expect("update");
        })
        .way("Graph::replace, both buffers", || {
            let bundle = spare.take().expect("there");
            let old = swapped.replace(bundle, |stream, (mut x, mut y)| {
                chain(stream, &mut x, &mut y, links, 1.0)
            });
            spare = Some(old.expect("replace"));
        })
        .way("raw capture and cuGraphExecUpdate", || raw.update(1.0))
        .way("Graph::update, a fill, by cuGraphExecUpdate", || {
            fills += 1.0;
            copied
                .update(|stream, (mut x, mut y)| {
                    stream.fill(&mut x, fills)?;
                    chain(stream, &mut x, &mut y, links, 1.0)
                })
                .expect("update");
        });
    group.run_to_the_end(ROUNDS, 5, &settle);
    group.report(json);
    Ok(())
}

/// The same chain with raw calls. Its handles are live until it is dropped.
struct Raw {
    stream: sys::CUstream,
    /// The stream for captures.
    aside: sys::CUstream,
    module: sys::CUmodule,
    function: sys::CUfunction,
    buffers: [DeviceAddress; 2],
    links: usize,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
}

impl Raw {
    /// The context must be current.
    fn new<D: Live>(compute: &Stream<Compute<D>>, (x, y): &OnCompute<D>, links: usize) -> Self {
        let start = PTX.find(".visible .entry scale__").expect("an entry") + ".visible .entry ".len();
        let name = PTX[start..].split('(').next().expect("a name");
        let name = std::ffi::CString::new(name).expect("no NUL");
        let text = std::ffi::CString::new(PTX).expect("no NUL");
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the text ends in a NUL.
        ok(unsafe { sys::cuModuleLoadData(&mut module, text.as_ptr().cast()) });
        // SAFETY: the module is live.
        ok(unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) });
        let mut aside = ptr::null_mut();
        // SAFETY: the pointer is to a live handle; 1 is CU_STREAM_NON_BLOCKING.
        ok(unsafe { sys::cuStreamCreate(&mut aside, 1) });
        let mut raw = Self {
            stream: ptr::with_exposed_provenance_mut(compute.raw().0 as usize),
            aside,
            module,
            function,
            buffers: [x.address(), y.address()],
            links,
            graph: ptr::null_mut(),
            executable: ptr::null_mut(),
            nodes: Vec::new(),
        };
        raw.graph = raw.capture(1.0);
        raw.executable = raw.instantiate(raw.graph);
        let mut count = 0;
        // SAFETY: the graph is live. Without an array the call only writes the number of nodes.
        ok(unsafe { sys::cuGraphGetNodes(raw.graph, ptr::null_mut(), &mut count) });
        assert_eq!(count, links);
        raw.nodes = vec![ptr::null_mut(); count];
        // SAFETY: the graph is live, and the array has room for all its nodes.
        ok(unsafe { sys::cuGraphGetNodes(raw.graph, raw.nodes.as_mut_ptr(), &mut count) });
        raw
    }

    /// Calls `launch` with the parameters of one link.
    fn with_parameters(&self, link: usize, factor: f32, launch: impl FnOnce(*mut *mut c_void)) {
        let [from, to] = [self.buffers[link % 2].0, self.buffers[(link + 1) % 2].0];
        let (len, extent) = (
            LEN as u64,
            Extent {
                x: LEN as u64,
                y: 1,
                z: 1,
            },
        );
        let mut parameters: [*mut c_void; 6] = [
            ptr::from_ref(&from).cast_mut().cast(),
            ptr::from_ref(&len).cast_mut().cast(),
            ptr::from_ref(&to).cast_mut().cast(),
            ptr::from_ref(&len).cast_mut().cast(),
            ptr::from_ref(&factor).cast_mut().cast(),
            ptr::from_ref(&extent).cast_mut().cast(),
        ];
        launch(parameters.as_mut_ptr());
    }

    fn chain(&self, stream: sys::CUstream, factor: f32) {
        let blocks = LEN.div_ceil(256) as u32;
        for link in 0..self.links {
            self.with_parameters(link, factor, |parameters| {
                // SAFETY: the parameters are the kernel's, and the buffers are live.
                ok(unsafe {
                    sys::cuLaunchKernel(
                        self.function,
                        blocks,
                        1,
                        1,
                        256,
                        1,
                        1,
                        0,
                        stream,
                        parameters,
                        ptr::null_mut(),
                    )
                });
            });
        }
    }

    fn capture(&self, factor: f32) -> sys::CUgraph {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuStreamBeginCapture_v2(self.aside, mode) });
        self.chain(self.aside, factor);
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is live, and being captured.
        ok(unsafe { sys::cuStreamEndCapture(self.aside, &mut graph) });
        graph
    }

    fn instantiate(&self, graph: sys::CUgraph) -> sys::CUgraphExec {
        let mut executable = ptr::null_mut();
        // SAFETY: the handles are live.
        ok(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
        executable
    }

    fn capture_anew(&self, factor: f32) -> (sys::CUgraph, sys::CUgraphExec) {
        let graph = self.capture(factor);
        (graph, self.instantiate(graph))
    }

    fn destroy(&self, (graph, executable): (sys::CUgraph, sys::CUgraphExec)) {
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuGraphExecDestroy(executable) });
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuGraphDestroy(graph) });
    }

    fn replay(&self) {
        // SAFETY: the graph, the stream and the buffers are live.
        ok(unsafe { sys::cuGraphLaunch(self.executable, self.stream) });
    }

    fn set(&self, node: usize, factor: f32) {
        self.with_parameters(node, factor, |parameters| {
            let launch = sys::CUDA_KERNEL_NODE_PARAMS {
                func: self.function,
                gridDimX: LEN.div_ceil(256) as u32,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: 256,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: 0,
                kernelParams: parameters,
                extra: ptr::null_mut(),
                kern: ptr::null_mut(),
                ctx: ptr::null_mut(),
            };
            // SAFETY: graph and node are live, the node is of the graph that `executable` was made
            // from, and the parameters are the kernel's.
            ok(unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.executable, self.nodes[node], &launch) });
        });
    }

    fn update(&self, factor: f32) {
        let graph = self.capture(factor);
        // SAFETY: the struct has only numbers and pointers, for which zero is a value.
        let mut result: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
        // SAFETY: both graphs are live, and the pointer is to a live struct.
        ok(unsafe { sys::cuGraphExecUpdate_v2(self.executable, graph, &mut result) });
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuGraphDestroy(graph) });
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the stream is live.
        ok(unsafe { sys::cuStreamSynchronize(self.stream) });
        self.destroy((self.graph, self.executable));
        // SAFETY: the handle is live, and not used again.
        ok(unsafe { sys::cuStreamDestroy_v2(self.aside) });
        // SAFETY: the module is live, and none of its kernels runs: the stream was synchronised
        // above.
        ok(unsafe { sys::cuModuleUnload(self.module) });
    }
}
