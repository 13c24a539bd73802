// H26 (E0277): a function that a stream runs on another thread holds a counter of this one.
// Twin: h26_host_function_borrows_the_stack
#![forbid(unsafe_code)]
use cuda_rt::{Error, Stream};
use std::cell::Cell;
use std::rc::Rc;

cuda_rt::streams! {
    Download;
}

fn start(download: &Stream<Download>, done: &Rc<Cell<usize>>) -> Result<(), Error> {
    let done = Rc::clone(done);
    download.host_fn((), move |()| done.set(done.get() + 1))
}

fn main() {}
