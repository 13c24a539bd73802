// H24 (lifetime): the promise to lend the parts of a bundle for one lifetime gets another.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::__private::{Borrow, BorrowMut};

fn lengthen<'v, S, D>(promise: BorrowMut<'v, S, D>) -> BorrowMut<'static, S, D> {
    promise
}

fn shorten<'v, S, D>(promise: BorrowMut<'static, S, D>) -> BorrowMut<'v, S, D> {
    promise
}

fn lengthen_to_read<'v, S, D>(promise: Borrow<'v, S, D>) -> Borrow<'static, S, D> {
    promise
}

fn shorten_to_read<'v, S, D>(promise: Borrow<'static, S, D>) -> Borrow<'v, S, D> {
    promise
}

fn main() {}
