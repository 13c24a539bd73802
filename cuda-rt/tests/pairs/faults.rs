//! Programs on two devices, with each driver call failing in turn.

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig, Simulator};
use cuda_rt::{Device, Live, Result};

/// A code that is not sticky and belongs to no call in particular.
pub(crate) const PASSING: ErrorCode = ErrorCode::OUT_OF_MEMORY;

const STICKY: ErrorCode = ErrorCode::LAUNCH_FAILED;

/// Numbers of streams, events, allocations and registrations.
type Objects = [usize; 4];

/// A program on two devices, which checks its results.
pub(crate) trait Program {
    /// The objects that may remain if the event at the end of a use cannot be made or recorded.
    const WITHOUT_END: Objects;

    fn run<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> Result<()>;
}

fn configurations() -> impl Iterator<Item = SimConfig> {
    let random = (0..6).map(|seed| SimConfig::new().seed(seed));
    random.chain([SimConfig::new().seed(9).order(Order::Lazy)])
}

/// Gives `body` the program on two devices, and returns what remains after they are dropped. A
/// third device keeps the host alive.
fn left_of<P: Program>(config: SimConfig, body: impl Fn(&dyn Fn() -> Result<()>, &Simulator)) -> Counters {
    Device::simulated(config, |keeper| {
        let simulator = keeper.simulator().unwrap().clone();
        keeper
            .simulated_peer(|here| {
                keeper
                    .simulated_peer(|there| body(&|| P::run(&here, &there), &simulator))
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

/// The objects that remain. The third device has one stream.
fn leaks(counters: &Counters) -> Objects {
    [
        counters.streams_live - 1,
        counters.events_live,
        counters.allocations_live,
        counters.registrations_live,
    ]
}

/// The objects that may remain after a call has failed.
fn allowed<P: Program>(call: Call) -> Objects {
    match call {
        Call::DestroyStream => [1, 0, 0, 0],
        Call::DestroyEvent => [0, 1, 0, 0],
        Call::Free | Call::WaitEvent => [0, 0, 1, 0],
        Call::UnregisterHost | Call::SynchronizeEvent => [0, 0, 0, 1],
        Call::CreateEvent | Call::RecordEvent => P::WITHOUT_END,
        _ => [0; 4],
    }
}

/// Runs the program twice, on the same devices, with each of its calls failing once or from then
/// on. It must return the call's error or the right bytes, and leave no more objects than it must.
/// `check` gets the numbers of calls of a run without faults.
pub(crate) fn for_each_call_that_fails<P: Program>(check: impl Fn(&Counters)) {
    let mut failed = 0;
    for config in configurations() {
        let counted = left_of::<P>(config.clone(), |program, _| program().unwrap());
        assert_eq!(leaks(&counted), [0; 4]);
        check(&counted);
        for &call in Call::ALL {
            for nth in 1..=counted.calls(call) {
                for code in [PASSING, STICKY] {
                    let context = format!("{call:?} number {nth} fails with {code:?}, seed {}", config.seed);
                    let counters = left_of::<P>(config.clone(), |program, simulator| {
                        simulator.fail_nth(call, nth, code);
                        for _ in 0..2 {
                            if let Err(error) = program() {
                                let driver = error.driver().unwrap_or_else(|| panic!("{context}: {error}"));
                                assert_eq!(driver.code(), code, "{context}: {error}");
                            }
                        }
                    });
                    if code == PASSING {
                        let (left, most) = (leaks(&counters), allowed::<P>(call));
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
