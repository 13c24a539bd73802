//! Attacks on memory that is read in common: the calls that unwind are those that order a read
//! before the next write, or before the memory's end.

use crate::attacks::{
    LEN, copied, filled, in_many_orders, no_race, read, stream_one, stream_two, unwind_from_drop,
};
use crate::driver::until_unwound;

#[test]
fn an_owner_that_cannot_wait_for_its_reader_takes_no_more_work() {
    for call in ["record_event", "wait_event"] {
        in_many_orders(|gpu, plan, when| {
            let (one, two) = (stream_one(&gpu), stream_two(&gpu));
            let mut data = filled(&two, 7);
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
            // The record that unwinds is made, also behind the record of the other part's end.
            gpu.keep_redundant_edges(true);
            let one = stream_one(&gpu);
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
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let data = filled(&one, 1);
        let shared = one.share(data).unwrap();
        let lease = one.lease(&shared).unwrap();
        let copy = copied(&one, &lease.view());
        drop(lease);
        plan.arm(Some("record_event"), 1, when);
        assert!(until_unwound(|| shared.reclaim()).is_none(), "it unwinds");
        let _others = [(); 4].map(|()| filled(&two, 9));
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}

/// A lease inside a shared bundle ends with its bundle, where the record of its end unwinds.
#[test]
fn a_lease_in_a_shared_bundle_is_not_forgotten_where_the_record_of_its_end_unwinds() {
    in_many_orders(|gpu, plan, when| {
        let (one, two) = (stream_one(&gpu), stream_two(&gpu));
        let data = filled(&two, 1);
        let inner = two.share(data).unwrap();
        let outer = one.share_lazily(one.lease(&inner).unwrap()).unwrap();
        let lease = one.lease(&outer).unwrap();
        let copy = copied(&one, &lease.view());
        drop(lease);
        plan.arm(Some("record_event"), 1, when);
        unwind_from_drop(outer);
        let refused = two.try_acquire(inner.reclaim().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("unwound"), "{refused}");
        drop(refused);
        let _other = filled(&two, 2);
        assert_eq!(read(&one, &copy), [1; LEN]);
        no_race(&gpu);
    });
}
