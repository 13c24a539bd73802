//! Each call that enqueues work makes the next record necessary.

use cuda_rt::driver::{ErrorCode, Location};
use cuda_rt::interop::ForeignGrid;
use cuda_rt::simulator::Call;
use cuda_rt::{Communicator, Device, Grid1, Layout2, Reduction, Scoped};
use device_kernels::scale;

use super::{First, LEN, Second, edges, filled, simulated};
use crate::interop::foreign_kernels::{self, Saxpy};

cuda_rt::streams! {
    pub(super) Fourth;
}

/// Calls that enqueue nothing. A new call of the driver is missing here and in `enqueuing`, which
/// fails the test.
const OTHERS: [Call; 34] = [
    Call::MemoryInfo,
    Call::CreateStream,
    Call::DestroyStream,
    Call::SynchronizeStream,
    Call::QueryStream,
    Call::CreateEvent,
    Call::DestroyEvent,
    // A record is what others wait for.
    Call::RecordEvent,
    Call::QueryEvent,
    Call::SynchronizeEvent,
    Call::ElapsedMs,
    Call::PoolStats,
    Call::SetPool,
    Call::TrimPool,
    Call::RegisterHost,
    Call::UnregisterHost,
    Call::AllocWriteCombined,
    Call::FreeWriteCombined,
    Call::MappedAddress,
    Call::AllocManaged,
    Call::FreeManaged,
    Call::Advise,
    Call::PeerAccess,
    Call::CommunicatorInit,
    Call::CollectiveStatus,
    Call::Prepare,
    Call::LoadModule,
    Call::UnloadModule,
    Call::ModuleFunction,
    Call::KernelAttributes,
    Call::MaxActiveBlocks,
    Call::SuggestBlock,
    Call::DestroyGraph,
    // The stream of a capture is the capture's own.
    Call::CapturedNode,
];

/// Calls of captures and of updates, which change a graph.
const CAPTURES: [Call; 4] = [
    Call::BeginCapture,
    Call::EndCapture,
    Call::UpdateGraph,
    Call::SetLaunch,
];

type Work<'a> = Vec<(Call, Box<dyn FnMut() + 'a>)>;

/// For each call that enqueues work on the first stream, code that makes it last.
fn with_each_work<'id>(gpu: &Device<Scoped<'id>>, peer: &Device<Scoped<'_>>, judge: impl FnOnce(Work<'_>)) {
    let first = gpu.stream::<First<_>>().unwrap();
    let second = gpu.stream::<Second<_>>().unwrap();
    let theirs = peer.stream::<Second<_>>().unwrap();
    let floats = || first.alloc_zeroed::<f32>(LEN).unwrap();
    let pinned = || first.adopt(gpu.pinned::<f32>(LEN).unwrap()).unwrap();
    let (source, host, from) = (floats(), pinned(), floats());
    let (mut to_device, mut to_host, mut within, mut rows, mut fill, mut scaled) =
        (floats(), pinned(), floats(), floats(), floats(), floats());
    let mut summed = floats();
    let saxpy = foreign_kernels::load(gpu).get::<Saxpy>().unwrap();
    let threads = ForeignGrid::covering([LEN, 1, 1], [32, 1, 1]);
    let mut called = pinned();
    let managed = first.adopt(gpu.managed::<f32>(LEN).unwrap()).unwrap();
    let mut graph = first
        .capture(floats(), |stream, mut data| stream.fill(&mut data, 1.0))
        .unwrap();
    let mut freed = Vec::new();
    freed.resize_with(3, || Some(floats()));
    let mut reduced = Some((floats(), theirs.alloc_zeroed::<f32>(LEN).unwrap()));
    let ranks = Communicator::new((gpu, peer)).unwrap();
    let frame = Layout2::packed(8, 8);
    let mut away = Some(theirs.release(theirs.alloc_zeroed::<f32>(LEN).unwrap()).unwrap());
    let mut kept = Vec::new();
    let mut events = [1, 2].map(|value| {
        let _work = filled(&second, value);
        second.record_event().unwrap()
    });
    events.reverse();
    let mut events = Vec::from(events);
    let stream = &first;
    judge(vec![
        (
            Call::Alloc,
            Box::new(|| kept.push(stream.alloc_uninit::<f32>(LEN).unwrap())),
        ),
        (Call::Free, Box::new(|| drop(freed.pop().flatten()))),
        (
            Call::Prefetch,
            Box::new(|| stream.prefetch(&managed, .., Location::Device).unwrap()),
        ),
        (
            Call::CopyToDevice,
            Box::new(|| stream.copy_to_device(&host, &mut to_device).unwrap()),
        ),
        (
            Call::CopyToHost,
            Box::new(|| stream.copy_to_host(&source, &mut to_host).unwrap()),
        ),
        (
            Call::Copy,
            Box::new(|| stream.copy(&source, &mut within).unwrap()),
        ),
        (
            Call::CopyRows,
            Box::new(|| stream.copy_rows(&source, frame, &mut rows, frame).unwrap()),
        ),
        (
            Call::CopyPeer,
            Box::new(|| {
                let there = stream.copy_to_peer(&source, away.take().unwrap(), ..).unwrap();
                away = Some(there);
            }),
        ),
        (Call::Fill, Box::new(|| stream.fill(&mut fill, 2.0).unwrap())),
        (
            Call::Launch,
            Box::new(|| scale(stream, Grid1::covering(LEN), &from, &mut scaled, 2.0).unwrap()),
        ),
        (
            Call::Launch,
            Box::new(|| {
                saxpy.launch(stream, threads, 2.0, &source, &mut summed).unwrap();
            }),
        ),
        (
            Call::LaunchHostFunction,
            Box::new(|| stream.host_fn(&mut called, |host| host[0] += 1.0).unwrap()),
        ),
        (Call::LaunchGraph, Box::new(|| graph.launch(stream).unwrap())),
        (
            Call::Collective,
            Box::new(|| {
                let (here, there) = reduced.take().unwrap();
                let given = (stream.rank(here), theirs.rank(there));
                reduced = Some(ranks.all_reduce(Reduction::Sum, given).unwrap());
            }),
        ),
        (
            Call::WaitEvent,
            Box::new(|| stream.wait_event(&events.pop().unwrap()).unwrap()),
        ),
    ]);
}

#[test]
fn each_call_that_enqueues_work_makes_the_next_record_necessary() {
    simulated(|gpu| {
        // So that an allocation and a free are calls on the stream.
        gpu.set_memory_caching(false);
        gpu.simulated_peer(|peer| {
            let first = gpu.stream::<First<_>>().unwrap();
            let counters = || gpu.simulator().unwrap().counters();
            with_each_work(&gpu, &peer, |work| {
                let mut seen: Vec<Call> = OTHERS.into_iter().chain(CAPTURES).collect();
                for (call, mut enqueue) in work {
                    for _ in 0..2 {
                        let _before = first.record_event().unwrap();
                        let (made, _) = edges(&gpu, || first.record_event().unwrap());
                        assert_eq!(made, [0, 0, 0], "nothing was enqueued");
                        let before = counters().calls(call);
                        // The collective records the end of each rank, which the other waits for.
                        let records = if call == Call::Collective { 3 } else { 1 };
                        let (made, _) = edges(&gpu, || {
                            enqueue();
                            first.record_event().unwrap()
                        });
                        assert!(counters().calls(call) > before, "{call:?} was not made");
                        assert_eq!(made[0], records, "{call:?} is not counted");
                    }
                    seen.push(call);
                }
                for call in Call::ALL {
                    assert!(seen.contains(call), "{call:?} enqueues work, or not: say so here");
                }
            });
        })
        .unwrap();
    });
}

/// A call that fails may have enqueued something.
#[test]
fn work_whose_call_fails_makes_the_next_record_necessary() {
    simulated(|gpu| {
        let first = gpu.stream::<First<_>>().unwrap();
        let mut buffer = filled(&first, 1);
        let simulator = gpu.simulator().unwrap();
        let _before = first.record_event().unwrap();
        simulator.fail_next(Call::Fill, ErrorCode::OUT_OF_MEMORY);
        first.fill(&mut buffer, 2).unwrap_err();
        let (made, _) = edges(&gpu, || first.record_event().unwrap());
        assert_eq!(made, [1, 0, 0]);
    });
}
