//! Captures: their recorded work, and the ways to leave them.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::{Error, Grid1};
use device_kernels::scale;

use crate::devices::for_each_device;
use crate::graph::{Compute, LEN, copied, filled, value};

cuda_rt::streams! {
    Download;
    Left;
}

#[test]
fn a_capture_is_replayed_with_its_forks_and_temporaries() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (mut a, b) = (
            compute.alloc_zeroed::<u32>(64).unwrap(),
            compute.alloc_zeroed::<u32>(64).unwrap(),
        );
        compute.fill(&mut a, 1).unwrap();
        let mut graph = compute
            .capture((a, b), |stream, (a, mut b)| {
                let fork = stream.fork::<Download<_>>()?;
                let mut temporary = stream.alloc_zeroed::<u32>(64)?;
                stream.copy(&a, &mut temporary)?;
                let temporary = fork.acquire(stream.release(temporary)?)?;
                stream.lend(&fork, &mut b, |b| fork.copy(&temporary, b))?
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        {
            let (mut a, _) = graph.views();
            compute.fill(&mut a, 2).unwrap();
        }
        graph.launch(&compute).unwrap();
        let (_, b) = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&b, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [2; 64]);
    });
}

#[test]
fn forking_the_tag_that_is_captured_gives_the_stream_of_the_capture() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let buffer = compute.alloc_zeroed::<u32>(64).unwrap();
        let mut graph = compute
            .capture(buffer, |stream, mut view| {
                let same = stream.fork::<Compute<_>>()?;
                for value in 0..50 {
                    stream.fill(&mut view, value)?;
                    same.fill(&mut view, value + 1)?;
                }
                Ok(())
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let buffer = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [50; 64]);
    });
}

#[test]
fn a_capture_that_fails_or_panics_leaves_the_stream_usable() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let failed = compute.capture(compute.alloc_zeroed::<u8>(4).unwrap(), |_, _| {
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = compute.capture(compute.alloc_zeroed::<u8>(4).unwrap(), |stream, mut view| {
                stream.fill(&mut view, 1)?;
                std::panic::panic_any("in the capture")
            });
        }));
        assert!(panicked.is_err());
        compute.alloc_zeroed::<u8>(4).unwrap();
        compute.synchronize().unwrap();
    });
}

/// CUDA would report an unjoined fork. The library joins the fork at the end of the capture,
/// whatever the fork holds then.
#[test]
fn a_fork_that_goes_on_after_its_join_is_joined_again() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 1.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut b)| {
                let fork = stream.fork::<Left<_>>()?;
                stream.lend(&fork, &mut b, |b| fork.fill(b, 5.0))??;
                let mut more = fork.alloc_zeroed::<f32>(LEN)?;
                fork.fill(&mut more, 1.0)?;
                scale(stream, Grid1::covering(LEN), &a, &mut b, 4.0)?;
                // The fork drops this after everything that was joined.
                drop(more);
                Ok(())
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 4.0);
    });
}

#[test]
fn the_outer_stream_works_while_a_capture_is_made() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let outside = filled(&compute, 3.0);
        let mut graph = compute
            .capture(filled(&compute, 0.0), |stream, mut view| {
                stream.fill(&mut view, 1.0)?;
                assert_eq!(value(&compute, copied(gpu, &compute, &outside)), 3.0);
                let elsewhere = std::thread::scope(|scope| {
                    let thread = scope.spawn(|| {
                        let left = gpu.stream::<Left<_>>()?;
                        let buffer = left.init_filled(left.alloc_uninit(LEN)?, 4.0_f32)?;
                        let mut host = left.adopt(gpu.pinned(LEN)?)?;
                        left.copy_to_host(&buffer, &mut host)?;
                        left.release(host)?.synchronize()
                    });
                    thread.join().unwrap()
                })?;
                assert_eq!(elsewhere[LEN - 1], 4.0);
                compute.synchronize()?;
                stream.fill(&mut view, 2.0)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views())), 2.0);
    });
}

#[test]
fn arguments_passed_by_value_are_the_graphs() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let bundle = (filled(&compute, 2.0), filled(&compute, 0.0));
        let mut graph = {
            let factors = Vec::from([3.0_f32]);
            compute.capture(bundle, |stream, (a, mut b)| {
                let factor = Box::new(factors[0]);
                scale(stream, Grid1::covering(LEN), &a, &mut b, *factor)
            })
        }
        .unwrap();
        let _reused: Vec<Box<f32>> = (0..64).map(|_| Box::new(100.0)).collect();
        graph.launch(&compute).unwrap();
        assert_eq!(value(&compute, copied(gpu, &compute, &graph.views().1)), 6.0);
    });
}
