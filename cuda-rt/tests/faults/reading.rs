//! Attacks on memory that is read in common: the calls that unwind are those that order a read
//! before the next write, or before the memory's end.

use crate::attacks::{LEN, One, Two, in_many_orders, no_race, read, unwind_from_drop};
use crate::driver::until_unwound;

#[test]
fn an_owner_that_cannot_wait_for_its_reader_takes_no_more_work() {
    for call in ["record_event", "wait_event"] {
        in_many_orders(|gpu, plan, when| {
            let (one, two) = (gpu.stream::<One<_>>().unwrap(), gpu.stream::<Two<_>>().unwrap());
            let mut data = two.alloc_zeroed::<u32>(LEN).unwrap();
            two.fill(&mut data, 7).unwrap();
            let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
            let lent = until_unwound(|| {
                two.lend_ref(&one, &data, |lent| {
                    one.copy(lent, &mut copy).unwrap();
                    plan.arm(Some(call), 1, when);
                })
            });
            assert!(lent.is_none(), "it unwinds");
            let refused = two.fill(&mut data, 8).unwrap_err();
            assert!(refused.is_sticky(), "{refused}");
            drop(data);
            no_race(&gpu);
        });
    }
}

/// Pinned memory that never left its writer's stream gets its event when it is dropped.
#[test]
fn shared_pinned_memory_is_not_unmapped_where_the_record_of_its_end_unwinds() {
    for split in [false, true] {
        in_many_orders(|gpu, plan, when| {
            let one = gpu.stream::<One<_>>().unwrap();
            let device = one.alloc_zeroed::<u32>(1 << 16).unwrap();
            let mut host = one.adopt(gpu.pinned::<u32>(1 << 16).unwrap()).unwrap();
            one.copy_to_host(&device, &mut host).unwrap();
            if split {
                drop(host.split_off(1 << 15));
            }
            let shared = one.share_lazily(host).unwrap();
            drop(one.lease(&shared).unwrap());
            plan.arm(Some("record_event"), 1, when);
            unwind_from_drop(shared);
            let _mine = gpu.pinned::<u32>(1 << 16).unwrap();
            assert_eq!(gpu.pinned_stats().blocks_held, 2, "still mapped, and in use");
            one.synchronize().unwrap();
            no_race(&gpu);
        });
    }
}

/// The writer's stream has read, and the record for the next writer unwinds: no next writer gets
/// the bundle, and its memory is not given out.
#[test]
fn a_shared_bundle_is_leaked_where_the_record_for_its_next_writer_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (gpu.stream::<One<_>>().unwrap(), gpu.stream::<Two<_>>().unwrap());
        let mut data = one.alloc_zeroed::<u32>(LEN).unwrap();
        one.fill(&mut data, 1).unwrap();
        let shared = one.share(data).unwrap();
        let lease = one.lease(&shared).unwrap();
        let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
        one.copy(&lease.view(), &mut copy).unwrap();
        drop(lease);
        plan.arm(Some("record_event"), 1, when);
        assert!(until_unwound(|| shared.reclaim()).is_none(), "it unwinds");
        let mut others: Vec<_> = (0..4).map(|_| two.alloc_zeroed::<u32>(LEN).unwrap()).collect();
        others.iter_mut().for_each(|other| two.fill(other, 9).unwrap());
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}

/// A lease inside a shared bundle ends with its bundle, where the record of its end unwinds.
#[test]
fn a_lease_in_a_shared_bundle_is_not_forgotten_where_the_record_of_its_end_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (gpu.stream::<One<_>>().unwrap(), gpu.stream::<Two<_>>().unwrap());
        let mut data = two.alloc_zeroed::<u32>(LEN).unwrap();
        two.fill(&mut data, 1).unwrap();
        let inner = two.share(data).unwrap();
        let outer = one.share_lazily(one.lease(&inner).unwrap()).unwrap();
        let lease = one.lease(&outer).unwrap();
        let mut copy = one.alloc_zeroed::<u32>(LEN).unwrap();
        one.copy(&lease.view(), &mut copy).unwrap();
        drop(lease);
        plan.arm(Some("record_event"), 1, when);
        unwind_from_drop(outer);
        let refused = two.try_acquire(inner.reclaim().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("unwound"), "{refused}");
        drop(refused);
        let mut other = two.alloc_zeroed::<u32>(LEN).unwrap();
        two.fill(&mut other, 2).unwrap();
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}
