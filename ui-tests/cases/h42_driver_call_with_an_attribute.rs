// H42 (macro): a driver's call, which the library writes, replaces a function of the C library.
// Twin: h42_foreign_call_without_unsafe
#![forbid(unsafe_code)]

use cuda_rt::driver::{DriverResult, RawEvent};

struct Mine;

impl Mine {
    cuda_rt::driver::event_calls! { |_this: &Mine|
        #[unsafe(export_name = "getpid")]
        create_event(_timing) => Ok(RawEvent(0));
    }
}

fn main() {
    let _ = Mine::create_event;
}
