// H26 (E0277): a closure that runs on another thread holds a counter of this one.
// Twin: h26_closure_borrows_the_stack
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer};
use std::cell::Cell;
use std::rc::Rc;

fn start(download: Handoff<PinnedBuffer<f32>>, done: &Rc<Cell<usize>>) -> Result<(), Error> {
    let done = Rc::clone(done);
    download.on_done(move |_| done.set(done.get() + 1))
}

fn main() {}
