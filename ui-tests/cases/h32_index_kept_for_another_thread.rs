// H32 (E0521): a thread keeps its index where the next thread finds it.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

thread_local! {
    static KEPT: std::cell::Cell<Option<Index1<'static>>> = const { std::cell::Cell::new(None) };
}

#[kernel]
pub fn stash(i: Index1, mut output: PerThread<f32>) {
    KEPT.set(Some(i));
    if let Some(out) = output.get_mut(i) {
        *out = 1.0;
    }
}

fn main() {}
