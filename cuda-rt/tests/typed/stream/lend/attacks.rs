//! Attacks on lending: the wait at its end fails on the GPU and on the host.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, Live, Stream};

cuda_rt::streams! {
    Owner;
    Borrower;
}

const LEN: usize = 64;

/// A device on which a buffer's owner could not be made to wait for its borrower. The borrower
/// writes 7 into the buffer.
fn unjoined<D: Live>(gpu: &Device<D>) -> (Stream<Owner<D>>, cuda_rt::DeviceBuffer<u32, Owner<D>>) {
    let (owner, borrower) = (
        gpu.stream::<Owner<D>>().unwrap(),
        gpu.stream::<Borrower<D>>().unwrap(),
    );
    let mut buffer = owner.alloc_zeroed::<u32>(LEN).unwrap();
    owner.synchronize().unwrap();
    let simulator = gpu.simulator().unwrap();
    // The second record is the record at the borrower's end.
    simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
    simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
    let error = owner
        .lend(&borrower, &mut buffer, |view| borrower.fill(view, 7))
        .unwrap_err();
    assert!(matches!(error, Error::Unordered { .. }), "{error:?}");
    assert!(error.is_sticky(), "{error}");
    (owner, buffer)
}

/// The wait at the end fails on the GPU, and the host waits instead: the owner may continue.
#[test]
fn attack_use_after_a_lend_that_only_the_host_could_join() {
    for order in [Order::Lazy, Order::Random] {
        Device::simulated(SimConfig::default().order(order), |gpu| {
            let (owner, borrower) = (
                gpu.stream::<Owner<_>>().unwrap(),
                gpu.stream::<Borrower<_>>().unwrap(),
            );
            let mut buffer = owner.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = gpu.simulator().unwrap();
            simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
            let lent = owner.lend(&borrower, &mut buffer, |view| borrower.fill(view, 7));
            assert!(matches!(lent, Err(Error::Driver { .. })), "{lent:?}");
            let mut host = owner.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
            owner.copy_to_host(&buffer, &mut host).unwrap();
            assert_eq!(*owner.release(host).unwrap().synchronize().unwrap(), [7; LEN]);
        })
        .unwrap();
    }
}

/// Reads memory that the borrower still writes.
#[test]
fn attack_download_after_a_lend_that_could_not_be_joined() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let (owner, buffer) = unjoined(&gpu);
        let mut host = owner.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let copied = owner.copy_to_host(&buffer, &mut host);
        assert!(
            copied.is_err(),
            "the copy is not ordered after the borrower's fill"
        );
    })
    .unwrap();
}

/// Every call that enqueues work is refused.
#[test]
fn attack_any_work_after_a_lend_that_could_not_be_joined() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let (owner, mut buffer) = unjoined(&gpu);
        assert!(owner.fill(&mut buffer, 1).is_err());
        let host = owner.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        assert!(owner.copy_to_device(&host, &mut buffer).is_err());
    })
    .unwrap();
}

/// Each refusal names its own call and the cause, counts as sticky, and allocates nothing. A
/// service that retries leaks nothing.
#[test]
fn calls_refused_after_a_lend_that_could_not_be_joined_say_why_and_leak_nothing() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let (owner, buffer) = unjoined(&gpu);
        let live = || gpu.simulator().unwrap().counters().allocations_live;
        let before = live();
        for _ in 0..4 {
            let error = owner.alloc_zeroed::<u8>(1 << 20).unwrap_err();
            assert!(error.is_sticky());
            let Error::Unordered { during, cause } = &error else {
                panic!("{error:?}")
            };
            assert_eq!((*during, cause.call()), ("Stream::alloc_zeroed", "cuEventRecord"));
            assert_eq!(
                error.driver().map(|driver| driver.code()),
                Some(ErrorCode::OUT_OF_MEMORY)
            );
            assert!(error.to_string().contains("takes no more work"), "{error}");
        }
        assert_eq!(live(), before);
        // Finished work can still be waited for.
        owner.release(buffer).unwrap().synchronize().unwrap();
    })
    .unwrap();
}

/// Inside a capture the host cannot wait, and only the capture is lost.
#[test]
fn a_lend_that_cannot_be_joined_in_a_capture_ends_the_capture_and_no_more() {
    Device::simulated(SimConfig::default(), |gpu| {
        let owner = gpu.stream::<Owner<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let buffer = owner.alloc_zeroed::<u32>(LEN).unwrap();
        let error = owner
            .capture(buffer, |stream, mut view| {
                let fork = stream.fork::<Borrower<_>>()?;
                simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
                let _ = stream.lend(&fork, &mut view, |view| fork.fill(view, 1));
                Ok(())
            })
            .map(drop)
            .unwrap_err();
        assert!(
            matches!(error, Error::Driver { .. }) && !error.is_sticky(),
            "{error:?}"
        );
        let mut buffer = owner.alloc_zeroed::<u32>(LEN).unwrap();
        owner.fill(&mut buffer, 1).unwrap();
    })
    .unwrap();
}

/// Replays a graph, captured before, that uses the memory.
#[test]
fn attack_launch_a_graph_after_a_lend_that_could_not_be_joined() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let owner = gpu.stream::<Owner<_>>().unwrap();
        let mut graph = owner
            .capture(owner.alloc_zeroed::<u32>(LEN).unwrap(), |stream, mut view| {
                stream.fill(&mut view, 1)
            })
            .unwrap();
        graph.launch(&owner).unwrap();
        let (owner, _buffer) = unjoined(&gpu);
        assert!(
            graph.launch(&owner).is_err(),
            "what it replays may follow on nothing"
        );
    })
    .unwrap();
}

/// Frees memory that the borrower still writes; another device instance with the same pool could
/// get it.
#[test]
fn attack_free_after_a_lend_that_could_not_be_joined() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let simulator = gpu.simulator().unwrap().clone();
        let (owner, buffer) = unjoined(&gpu);
        let frees = |simulator: &cuda_rt::simulator::Simulator| simulator.counters().calls(Call::Free);
        let before = frees(&simulator);
        drop(buffer);
        assert_eq!(frees(&simulator), before, "freed in an order that was never made");
        drop(owner);
    })
    .unwrap();
}

/// Hands over memory that the borrower still writes. The next owner may free it in an order that
/// does not include the borrower.
#[test]
fn attack_give_away_memory_that_a_failed_lend_still_writes() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let (_owner, buffer) = unjoined(&gpu);
        let given = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| buffer.into_raw()));
        assert!(given.is_err(), "nothing says when it may be freed");
    })
    .unwrap();
}
