//! Attacks on lending: the wait at its end fails on the GPU and on the host.
#![forbid(unsafe_code)]

use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Device, Error, Live, PinnedBuffer, Slot, Stream};

cuda_rt::streams! {
    Owner;
    Borrower;
    Other;
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
            // The closure has run, so an error would ask the program to run it again.
            assert!(matches!(lent, Ok(Ok(()))), "{lent:?}");
            assert_eq!(simulator.pending_faults(), 0);
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
        let other = gpu.stream::<Other<_>>().unwrap();
        let released = other.release(other.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
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
        // Earlier releases can still be waited for, and later ones are refused.
        released.synchronize().unwrap();
        assert!(matches!(owner.release(buffer), Err(Error::Unordered { .. })));
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
        let frees = |simulator: &cuda_rt::simulator::Simulator| simulator.counters().frees();
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

/// Lends pinned memory, to which the borrower copies sevens, and cannot join the loan.
fn unjoined_pinned<D: Live>(gpu: &Device<D>) -> (Stream<Owner<D>>, PinnedBuffer<u32, Owner<D>>) {
    let (owner, borrower) = (
        gpu.stream::<Owner<D>>().unwrap(),
        gpu.stream::<Borrower<D>>().unwrap(),
    );
    let sevens = borrower.alloc_from_slice(&[7_u32; LEN]).unwrap();
    let mut host = owner.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
    owner.synchronize().unwrap();
    borrower.synchronize().unwrap();
    let simulator = gpu.simulator().unwrap();
    simulator.fail_nth(Call::RecordEvent, 2, ErrorCode::OUT_OF_MEMORY);
    simulator.fail_next(Call::SynchronizeStream, ErrorCode::OUT_OF_MEMORY);
    let error = owner
        .lend_all(&borrower, &mut host, |mut view| {
            borrower.copy_to_host(&sevens, &mut view)
        })
        .unwrap_err();
    assert!(matches!(error, Error::Unordered { .. }), "{error:?}");
    (owner, host)
}

/// An event that is recorded now is not behind the borrower's copy, so the host never gets memory
/// that was lent, on whatever way.
#[test]
fn attack_reach_pinned_memory_under_a_loan_that_could_not_be_joined() {
    for way in 0..6 {
        let config = SimConfig::default().order(Order::Lazy).check(Check::Record);
        Device::simulated(config, |gpu| {
            let (owner, host) = unjoined_pinned(&gpu);
            match way {
                0 => assert!(owner.release(host).is_err()),
                1 => assert!(owner.share(host).is_err()),
                2 => {
                    let shared = owner.share_lazily(host);
                    assert!(shared.and_then(|shared| shared.host().map(drop)).is_err());
                }
                3 => {
                    let mut slot = Slot::new(gpu.pinned::<u32>(1).unwrap());
                    let mut host = Some(host);
                    let swapped = slot.on(&owner, |one| std::mem::swap(one, host.as_mut().unwrap()));
                    assert!(swapped.is_err());
                    drop(host);
                }
                4 => assert!(owner.try_release((host,)).is_err()),
                _ => drop(host),
            }
            // The block stays mapped, and nothing else gets it.
            let mine = gpu.pinned_from(&[1_u32; LEN]).unwrap();
            gpu.simulator().unwrap().run_pending();
            assert_eq!(*mine, [1; LEN], "way {way}");
            assert_eq!(gpu.races(), [], "way {way}");
        })
        .unwrap();
    }
}
