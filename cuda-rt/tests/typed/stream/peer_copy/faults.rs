//! Copies between two devices, with each driver call failing in turn.
#![forbid(unsafe_code)]

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig};
use cuda_rt::{Device, Handoff, Live, Result};

use super::{Compute, Copies};

const LEN: usize = 96;

/// A code that is not sticky and belongs to no call in particular.
const PASSING: ErrorCode = ErrorCode::OUT_OF_MEMORY;

const STICKY: ErrorCode = ErrorCode::LAUNCH_FAILED;

/// Copies both ways; each side writes its lent memory again as soon as it may.
fn program<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> Result<()> {
    let (copies, compute) = (here.stream::<Copies<D>>()?, here.stream::<Compute<D>>()?);
    let owner = there.stream::<Compute<E>>()?;
    let mut source = owner.alloc_zeroed::<u32>(LEN)?;
    owner.fill(&mut source, 1)?;
    let mut ours = copies.alloc_zeroed::<u32>(LEN)?;
    let source = copies.copy_from_peer(owner.release(source)?, .., &mut ours)?;
    let mut source = owner.acquire(source)?;
    owner.fill(&mut source, 2)?;

    let mut reply = copies.alloc_zeroed::<u32>(LEN)?;
    copies.fill(&mut reply, 3)?;
    let source = copies.copy_to_peer(&reply, owner.release(source)?, ..LEN)?;
    copies.fill(&mut reply, 4)?;
    // Freed on the other device, after the copy.
    drop(copies.copy_from_peer(owner.release(owner.alloc_zeroed::<u32>(LEN)?)?, .., &mut reply)?);

    let source = owner.acquire(source)?;
    let mut host = owner.adopt(there.pinned(LEN)?)?;
    owner.copy_to_host(&source, &mut host)?;
    drop(source);
    let theirs: Handoff<_> = owner.release(host)?;
    let ours = compute.acquire(copies.release(ours)?)?;
    let mut host = compute.adopt(here.pinned(LEN)?)?;
    compute.copy_to_host(&ours, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [1; LEN]);
    assert_eq!(*theirs.synchronize()?, [3; LEN]);
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
        Call::CreateEvent | Call::RecordEvent => [0, 0, 0, 1],
        _ => [0; 4],
    }
}

#[test]
fn each_call_that_fails_gives_an_error_and_no_wrong_bytes_and_leaks_no_more_than_it_must() {
    let mut failed = 0;
    for config in configurations() {
        let counted = left_of(config.clone(), |program, _| program().unwrap());
        assert_eq!(leaks(&counted), [0; 4]);
        assert!(counted.calls(Call::CopyPeer) == 3 && counted.calls(Call::PeerAccess) == 3);
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

/// The end of a copy cannot be recorded, and the host waits for it instead.
#[test]
fn a_copy_whose_end_only_the_host_could_wait_for() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |here| {
        here.simulated_peer(|there| {
            let copies = here.stream::<Copies<_>>().unwrap();
            let owner = there.stream::<Compute<_>>().unwrap();
            let theirs = owner.release(owner.alloc_zeroed::<u32>(LEN).unwrap()).unwrap();
            let mut ours = copies.alloc_zeroed::<u32>(LEN).unwrap();
            let simulator = here.simulator().unwrap();
            simulator.fail_next(Call::RecordEvent, PASSING);
            let theirs = copies.copy_from_peer(theirs, .., &mut ours).unwrap();
            assert_eq!(simulator.counters().bytes_between_devices, 4 * LEN as u64);
            let mut theirs = owner.acquire(theirs).unwrap();
            owner.fill(&mut theirs, 1).unwrap();
            assert!(here.races().is_empty());
        })
    })
    .unwrap()
    .unwrap();
}
