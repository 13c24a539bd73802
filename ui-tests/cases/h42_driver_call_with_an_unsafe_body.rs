// H42 (E0133): the body of a driver's call, which the library writes into an `unsafe fn`, writes
// anywhere.
// Twin: h42_foreign_call_without_unsafe
#![forbid(unsafe_code)]

use cuda_rt::driver::{DriverResult, RawEvent};

struct Mine(usize);

impl Mine {
    cuda_rt::driver::event_calls! { |this: &Mine|
        query_event(_event) => {
            *std::ptr::with_exposed_provenance_mut::<u64>(this.0) = 7;
            Ok(true)
        };
    }
}

fn main() {
    let _ = (Mine::query_event, Mine(0));
}
