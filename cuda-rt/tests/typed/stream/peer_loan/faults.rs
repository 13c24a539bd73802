//! Loans between two devices, with each driver call failing in turn.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig};
use cuda_rt::{Device, Handoff, Live, Result};

use super::{Compute, Other};

const LEN: usize = 96;

/// A code that is not sticky and belongs to no call in particular.
const PASSING: ErrorCode = ErrorCode::OUT_OF_MEMORY;

const STICKY: ErrorCode = ErrorCode::LAUNCH_FAILED;

/// A loan each way, moved between streams, returned, dropped and forgotten; each side writes again
/// as soon as it may.
fn program<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> Result<()> {
    let (compute, other) = (here.stream::<Compute<D>>()?, here.stream::<Other<D>>()?);
    let owner = there.stream::<Compute<E>>()?;
    let mut theirs = owner.alloc_zeroed::<u32>(LEN)?;
    owner.fill(&mut theirs, 1)?;
    let mut lent = compute.acquire_peer(owner.release(theirs)?)?;
    let mut ours = compute.alloc_zeroed::<u32>(LEN)?;
    compute.copy(&lent, &mut ours)?;
    compute.fill(&mut lent[..LEN / 2], 2)?;
    let mut lent = other.acquire(compute.release(lent)?)?;
    other.fill(&mut lent[..LEN / 4], 3)?;
    let mut theirs = owner.acquire(other.release(lent)?.for_its_device())?;
    owner.fill(&mut theirs[..1], 4)?;

    // Written by the other device as it is dropped; the next buffer may get the same memory.
    let mut dropped = compute.acquire_peer(owner.release(owner.alloc_zeroed::<u32>(LEN)?)?)?;
    compute.fill(&mut dropped, 9)?;
    drop(dropped);
    let mut next = owner.alloc_zeroed::<u32>(LEN)?;
    owner.fill(&mut next, 5)?;

    let mut hosts = (owner.adopt(there.pinned(LEN)?)?, owner.adopt(there.pinned(LEN)?)?);
    owner.copy_to_host(&theirs, &mut hosts.0)?;
    owner.copy_to_host(&next, &mut hosts.1)?;
    drop((theirs, next));
    let hosts: Handoff<_> = owner.release(hosts)?;
    let mut host = compute.adopt(here.pinned(LEN)?)?;
    compute.copy_to_host(&ours, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [1; LEN]);
    let (theirs, next) = hosts.synchronize()?;
    assert_eq!(*next, [5; LEN]);
    let runs = [
        (0..1, 4),
        (1..LEN / 4, 3),
        (LEN / 4..LEN / 2, 2),
        (LEN / 2..LEN, 1),
    ];
    for (range, value) in runs {
        assert!(theirs[range].iter().all(|at| *at == value), "{theirs:?}");
    }
    Ok(())
}

fn configurations() -> impl Iterator<Item = SimConfig> {
    let random = (0..6).map(|seed| SimConfig::new().seed(seed));
    random.chain([SimConfig::new().seed(9).order(Order::Lazy)])
}

/// Runs `body` with two devices, and returns what remains after they are dropped. A third device
/// keeps the host alive.
fn left_of(
    config: SimConfig,
    body: impl Fn(&dyn Fn() -> Result<()>, &cuda_rt::simulator::Simulator),
) -> Counters {
    Device::simulated(config, |keeper| {
        let simulator = keeper.simulator().unwrap().clone();
        keeper
            .simulated_peer(|here| {
                keeper
                    .simulated_peer(|there| body(&|| program(&here, &there), &simulator))
                    .unwrap();
            })
            .unwrap();
        simulator.clear_faults();
        let counters = simulator.counters();
        assert!(keeper.races().is_empty());
        counters
    })
    .unwrap()
}

/// The objects that may remain: streams, events, graphs, allocations, registrations. The third
/// device has one stream.
fn leaks(counters: &Counters) -> [usize; 4] {
    [
        counters.streams_live - 1,
        counters.events_live,
        counters.allocations_live,
        counters.registrations_live,
    ]
}

/// As in `faults`.
fn allowed(call: Call) -> [usize; 4] {
    match call {
        Call::DestroyStream => [1, 0, 0, 0],
        Call::DestroyEvent => [0, 1, 0, 0],
        Call::Free | Call::WaitEvent => [0, 0, 1, 0],
        Call::UnregisterHost | Call::SynchronizeEvent => [0, 0, 0, 1],
        Call::CreateEvent | Call::RecordEvent => [0, 0, 1, 1],
        _ => [0; 4],
    }
}

#[test]
fn each_call_that_fails_gives_an_error_and_no_wrong_bytes_and_leaks_no_more_than_it_must() {
    let mut failed = 0;
    for config in configurations() {
        let counted = left_of(config.clone(), |program, _| program().unwrap());
        assert_eq!(leaks(&counted), [0; 4]);
        assert_eq!(counted.calls(Call::PeerAccess), 2);
        for &call in Call::ALL {
            for nth in 1..=counted.calls(call) {
                for code in [PASSING, STICKY] {
                    let context = format!("{call:?} number {nth} fails with {code:?}, seed {}", config.seed);
                    let counters = left_of(config.clone(), |program, simulator| {
                        simulator.fail_nth(call, nth, code);
                        for _ in 0..2 {
                            if let Err(error) = program() {
                                let driver = error.driver().unwrap_or_else(|| panic!("{context}: {error}"));
                                assert_eq!(driver.code(), code, "{context}: {error}");
                            }
                        }
                    });
                    if code == PASSING {
                        let (left, most) = (leaks(&counters), allowed(call));
                        assert!(
                            left.iter().zip(most).all(|(left, most)| *left <= most),
                            "{context}: left {left:?} (streams, events, allocations, registrations)"
                        );
                    }
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 500, "only {failed} calls were made to fail");
}
