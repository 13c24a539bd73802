//! Attacks on captures: handoffs dropped inside, and every way to leave a capture.
#![forbid(unsafe_code)]

use cuda_rt::Error;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::Call;

use crate::leftovers::nothing_is_left;

cuda_rt::streams! {
    Compute;
    Download;
}

const LEN: usize = 128;

/// Handoffs and buffers from inside and outside are dropped inside a capture.
#[test]
fn attack_drop_handoffs_inside_a_capture() {
    nothing_is_left(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut outside = download.alloc_zeroed::<u32>(LEN).unwrap();
        download.fill(&mut outside, 4).unwrap();
        let outside = download.release(outside).unwrap();
        let pinned = gpu.pinned::<u32>(LEN).unwrap();
        let pending = download.release(download.adopt(pinned).unwrap()).unwrap();
        let mut graph = compute
            .capture(compute.alloc_zeroed::<u32>(LEN).unwrap(), |stream, mut view| {
                drop((outside, pending));
                let fork = stream.fork::<Download<_>>()?;
                let mut inside = fork.alloc_zeroed::<u32>(LEN)?;
                fork.fill(&mut inside, 8)?;
                drop(fork.release(inside)?);
                stream.fill(&mut view, 1)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let buffer = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [1; LEN]);
    });
}

/// Every stream of a capture is left by an error, a panic, or an ignored error, while forks hold
/// work.
#[test]
fn attack_leave_a_capture_in_every_way() {
    nothing_is_left(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let bundle = || compute.alloc_zeroed::<u32>(LEN).unwrap();
        let failed = compute.capture(bundle(), |stream, mut view| {
            let fork = stream.fork::<Download<_>>()?;
            let temporary = fork.alloc_zeroed::<u32>(LEN)?;
            stream.fill(&mut view, 1)?;
            drop(temporary);
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)));
        let ignored = compute.capture(bundle(), |stream, mut view| {
            simulator.fail_next(Call::WaitEvent, ErrorCode::OUT_OF_MEMORY);
            let _ = stream.fork::<Download<_>>();
            stream.fill(&mut view, 1)
        });
        assert!(ignored.is_err(), "the fork is not in the capture");
        let unjoined = compute.capture(bundle(), |stream, mut view| {
            let fork = stream.fork::<Download<_>>()?;
            // This is the wait at the end of the loan.
            simulator.fail_nth(Call::WaitEvent, 2, ErrorCode::OUT_OF_MEMORY);
            let _ = stream.lend(&fork, &mut view, |view| fork.fill(view, 2));
            stream.fill(&mut view, 1)
        });
        assert!(unjoined.is_err(), "the fill of the fork is not ordered");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = compute.capture(bundle(), |stream, mut view| {
                let fork = stream.fork::<Download<_>>()?;
                let _temporary = fork.alloc_zeroed::<u32>(LEN)?;
                stream.lend(&fork, &mut view, |view| {
                    fork.fill(view, 2).unwrap();
                    std::panic::panic_any(())
                })
            });
        }));
        assert!(panicked.is_err());
        compute.synchronize().unwrap();
    });
}
