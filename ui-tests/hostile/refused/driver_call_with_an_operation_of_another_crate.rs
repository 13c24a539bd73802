// H42 (E0133): the body of a driver's call reads any address, by a macro of a third crate.
#![forbid(unsafe_code)]
extern crate third;
use cuda_rt::driver::{DriverResult, RawEvent};
pub struct Mine(usize);
impl Mine {
    cuda_rt::driver::event_calls! { |this: &Mine|
        query_event(_event) => Ok(third::read!(this.0) == 7);
    }
}
