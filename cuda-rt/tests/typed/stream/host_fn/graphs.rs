//! Host functions in graphs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::Call;
use cuda_rt::{Device, Error, Live, Result};

use super::{CLOSURES, Compute, Download, LEN, SaysWhere, in_each_order, patient};
use crate::devices::for_each_device;

/// A graph whose function counts its launches into pinned memory, between two copies.
pub(super) fn replays<D: Live>(gpu: &Device<D>) -> Result<()> {
    let compute = gpu.stream::<Compute<D>>()?;
    let bundle = (
        compute.alloc_zeroed::<u32>(LEN)?,
        compute.adopt(gpu.pinned::<u32>(LEN)?)?,
    );
    let mut graph = compute.capture(bundle, |stream, (mut data, mut host)| {
        let fork = stream.fork::<Download<D>>()?;
        stream.copy_to_host(&data, &mut host)?;
        let mut launches = 0;
        stream.host_fn(&mut host, move |values| {
            launches += 1;
            values.iter_mut().for_each(|value| *value += launches);
        })?;
        stream.copy_to_device(&host, &mut data)?;
        let mut other = fork.alloc_zeroed::<u32>(LEN)?;
        fork.fill(&mut other, 5)
    })?;
    for _ in 0..4 {
        graph.launch(&compute)?;
    }
    let (data, _) = graph.into_inner();
    let mut back = compute.adopt(gpu.pinned::<u32>(LEN)?)?;
    compute.copy_to_host(&data, &mut back)?;
    assert_eq!(*compute.release(back)?.synchronize()?, [1 + 2 + 3 + 4; LEN]);
    Ok(())
}

#[test]
fn a_graph_runs_its_function_at_each_launch() {
    for_each_device(|gpu| replays(gpu).unwrap());
    in_each_order(|gpu| replays(gpu).unwrap());
}

/// Pending launches call the old closure, later ones the new; the old one then ends.
#[test]
fn an_update_replaces_the_closure_behind_the_pending_launches() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let ((old, old_ends), (new, new_ends)) = (mpsc::channel(), mpsc::channel());
        let mut graph = compute
            .capture(host, |stream, mut host| {
                let says = SaysWhere(old);
                stream.host_fn(&mut host, move |values| {
                    let _captured = &says;
                    thread::sleep(Duration::from_millis(1));
                    values.iter_mut().for_each(|value| *value = *value * 10 + 1);
                })
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        graph.launch(&compute).unwrap();
        graph
            .update(|stream, mut host| {
                let says = SaysWhere(new.clone());
                stream.host_fn(&mut host, move |values| {
                    let _captured = &says;
                    values.iter_mut().for_each(|value| *value = *value * 10 + 2);
                })
            })
            .unwrap();
        // The closure of the dry run.
        assert_eq!(patient(&new_ends), CLOSURES);
        graph.launch(&compute).unwrap();
        let host = graph.into_inner();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!(*host, [112; LEN]);
        assert_eq!(patient(&old_ends), CLOSURES);
        assert_eq!(patient(&new_ends), CLOSURES);
    });
}

#[test]
fn a_graph_that_is_dropped_while_it_runs_keeps_its_closure() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let (sender, ended) = mpsc::channel();
        let (says, counts) = (SaysWhere(sender), Arc::clone(&runs));
        let mut graph = compute
            .capture(compute.alloc_zeroed::<u32>(1).unwrap(), |stream, _| {
                stream.host_fn((), move |()| {
                    let _captured = &says;
                    thread::sleep(Duration::from_millis(1));
                    counts.fetch_add(1, Ordering::Relaxed);
                })
            })
            .unwrap();
        for _ in 0..3 {
            graph.launch(&compute).unwrap();
        }
        drop(graph);
        compute.synchronize().unwrap();
        assert_eq!(patient(&ended), CLOSURES);
        assert_eq!(
            runs.load(Ordering::Relaxed),
            3,
            "the closure ends after its last run"
        );
    });
}

#[test]
fn a_graph_whose_end_is_not_known_leaks_its_closure() {
    in_each_order(|gpu| {
        let (simulator, compute) = (gpu.simulator().unwrap(), gpu.stream::<Compute<_>>().unwrap());
        let (sender, ended) = mpsc::channel();
        let (says, runs) = (SaysWhere(sender), Arc::new(AtomicU32::new(0)));
        let counts = Arc::clone(&runs);
        let mut graph = compute
            .capture(compute.alloc_zeroed::<u32>(1).unwrap(), |stream, _| {
                stream.host_fn((), move |()| {
                    let _captured = &says;
                    counts.fetch_add(1, Ordering::Relaxed);
                })
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        simulator.fail_next(Call::LaunchHostFunction, ErrorCode::OUT_OF_MEMORY);
        drop(graph);
        simulator.clear_faults();
        compute.synchronize().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        let seen = ended.recv_timeout(Duration::from_millis(20));
        assert_eq!(seen, Err(mpsc::RecvTimeoutError::Timeout), "leaked, not dropped");
    });
}

#[test]
fn a_capture_that_fails_runs_nothing_and_ends_its_closure() {
    in_each_order(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (sender, ended) = mpsc::channel();
        let failed = compute.capture(compute.alloc_zeroed::<u32>(1).unwrap(), |stream, _| {
            let says = SaysWhere(sender);
            stream.host_fn((), move |()| {
                panic!("of no graph: {}", std::mem::size_of_val(&says))
            })?;
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)));
        assert_eq!(patient(&ended), CLOSURES);
        compute.synchronize().unwrap();
    });
}

/// Two closures cannot be compared, and a graph that allocates is not captured again.
#[test]
fn an_update_of_a_graph_that_allocates_is_refused() {
    in_each_order(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let host = compute.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap();
        let mut graph = compute
            .capture(host, |stream, mut host| {
                let data = stream.alloc_zeroed::<u32>(LEN)?;
                stream.copy_to_host(&data, &mut host)?;
                stream.host_fn(&mut host, |values| {
                    values.iter_mut().for_each(|value| *value += 1)
                })
            })
            .unwrap();
        let refused = graph.update(|stream, mut host| {
            let data = stream.alloc_zeroed::<u32>(LEN)?;
            stream.copy_to_host(&data, &mut host)?;
            stream.host_fn(&mut host, |values| values.fill(9))
        });
        let Err(Error::NotAnUpdate { operation, why, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(operation, 4, "allocation, fill, copy, function: {why}");
        assert!(why.contains("a host function"), "{why}");
        graph.launch(&compute).unwrap();
        let host = compute
            .release(graph.into_inner())
            .unwrap()
            .synchronize()
            .unwrap();
        assert_eq!(*host, [1; LEN]);
    });
}
