//! Views that a stream lends to another for a closure: the order holds on both sides, however the
//! closure ends.
#![forbid(unsafe_code)]

mod attacks;
mod reading;

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use cuda_rt::{Device, DeviceBuffer, Live, PinnedBuffer, Stream, StreamTag};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Owner;
    Borrower;
    Third;
}

const LEN: usize = 300;

fn host<D: Live, S: StreamTag<Device = D>>(gpu: &Device<D>, stream: &Stream<S>) -> PinnedBuffer<u32, S> {
    stream.adopt(gpu.pinned::<u32>(LEN).unwrap()).unwrap()
}

fn streams<D: Live>(gpu: &Device<D>) -> (Stream<Owner<D>>, Stream<Borrower<D>>, Stream<Third<D>>) {
    (
        gpu.stream().unwrap(),
        gpu.stream().unwrap(),
        gpu.stream().unwrap(),
    )
}

fn filled<S: StreamTag>(stream: &Stream<S>, value: u32) -> DeviceBuffer<u32, S> {
    let mut buffer = stream.alloc_zeroed(LEN).unwrap();
    stream.fill(&mut buffer, value).unwrap();
    buffer
}

#[test]
fn a_loan_comes_after_the_owners_earlier_work_and_before_its_later_work() {
    for_each_device(|gpu| {
        let (owner, borrower, _) = streams(gpu);
        let mut data = filled(&owner, 1);
        let (mut seen, mut after) = (host(gpu, &borrower), host(gpu, &owner));
        owner
            .lend(&borrower, &mut data[100..200], |view| {
                borrower.copy_to_host(view, &mut seen[..100])?;
                borrower.fill(view, 2)
            })
            .unwrap()
            .unwrap();
        owner.copy_to_host(&data, &mut after).unwrap();
        owner.fill(&mut data, 3).unwrap();
        let seen = borrower.release(seen).unwrap().synchronize().unwrap();
        let after = owner.release(after).unwrap().synchronize().unwrap();
        assert_eq!(seen[..100], [1; 100]);
        assert_eq!(
            [&after[..100], &after[100..200], &after[200..]],
            [&[1; 100], &[2; 100], &[1; 100]]
        );
    });
}

#[test]
fn a_loan_that_is_lent_on_and_left_by_a_panic_is_waited_for() {
    for_each_device(|gpu| {
        let (owner, borrower, third) = streams(gpu);
        let mut data = owner.alloc_zeroed::<u32>(LEN).unwrap();
        let left = catch_unwind(AssertUnwindSafe(|| {
            owner.lend(&borrower, &mut data, |view| {
                borrower.fill(view, 4).unwrap();
                borrower.lend(&third, &mut view[..10], |view| {
                    third.fill(view, 5).unwrap();
                    panic_any("in the closure")
                })
            })
        }));
        assert!(left.is_err());
        let mut after = host(gpu, &owner);
        owner.copy_to_host(&data, &mut after).unwrap();
        let after = owner.release(after).unwrap().synchronize().unwrap();
        assert_eq!((&after[..10], &after[10..]), (&[5; 10][..], &[4; LEN - 10][..]));
    });
}
