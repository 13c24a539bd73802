//! Calls on a stream between the steps of another call there, as another thread makes them by
//! chance: which work a record covers, and what a wait for it covers.

use cuda_rt::checker::Check;
use cuda_rt::simulator::{Order, SimConfig, SimDriver};
use cuda_rt::{AnyDevice, Device, Scoped};

use crate::attacks::{LEN, filled, no_race, stream_one, stream_two};
use crate::driver::{Plan, Unwinding, When, meanwhile, until_unwound};

cuda_rt::streams! {
    Three;
}

fn in_lazy_order(body: impl for<'id> FnOnce(Device<Scoped<'id>>)) {
    let config = SimConfig::new().order(Order::Lazy).check(Check::Record);
    let driver = Unwinding::over(SimDriver::new(config), &Plan::default());
    Device::with_driver(driver, body).unwrap();
}

/// A record during the call that fills the buffer does not cover the fill.
#[test]
fn a_record_that_is_made_during_a_call_is_not_shared_behind_it() {
    in_lazy_order(|gpu| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let mut data = one.alloc_zeroed::<u32>(LEN).unwrap();
        let other = one.to_any();
        meanwhile("fill", When::Before, move || {
            other.run(|one| drop(one.record_event().unwrap()));
        });
        one.fill(&mut data, 7).unwrap();
        let data = two.acquire(one.release(data).unwrap()).unwrap();
        assert_eq!(two.copy_to_vec(&data).unwrap(), [7; LEN]);
        no_race(&gpu);
    });
}

/// The stream waits for a third stream right after its record. Who waits for the record does not
/// wait for the third stream.
#[test]
fn a_wait_behind_a_record_is_not_covered_by_a_wait_for_the_record() {
    in_lazy_order(|gpu| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let three = gpu.stream::<Three<_>>().unwrap();
        let theirs = three.release(filled(&three, 5)).unwrap();
        let mine = filled(&one, 1);
        let (other, third, device) = (one.to_any(), three.to_any(), AnyDevice::from(&gpu));
        meanwhile("record_event", When::After, move || {
            device.with(|gpu| {
                let event = third.run_on(gpu, |three| three.record_event().unwrap()).unwrap();
                other.run_on(gpu, |one| one.wait_event(&event).unwrap()).unwrap();
            });
        });
        let mine = two.acquire(one.release(mine).unwrap()).unwrap();
        let theirs = two.acquire(theirs).unwrap();
        assert_eq!(two.copy_to_vec(&theirs).unwrap(), [5; LEN]);
        assert_eq!(two.copy_to_vec(&mine).unwrap(), [1; LEN]);
        no_race(&gpu);
    });
}

/// A call that unwinds may have enqueued its work.
#[test]
fn a_record_before_a_call_that_unwinds_is_not_shared_behind_it() {
    let config = SimConfig::new().order(Order::Lazy).check(Check::Record);
    let plan = Plan::default();
    let driver = Unwinding::over(SimDriver::new(config), &plan);
    Device::with_driver(driver, |gpu| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let mut data = filled(&one, 1);
        let _before = one.record_event().unwrap();
        plan.arm(Some("fill"), 1, When::After);
        assert!(until_unwound(|| one.fill(&mut data, 7)).is_none(), "it unwinds");
        let data = two.acquire(one.release(data).unwrap()).unwrap();
        assert_eq!(two.copy_to_vec(&data).unwrap(), [7; LEN]);
        no_race(&gpu);
    })
    .unwrap();
}
