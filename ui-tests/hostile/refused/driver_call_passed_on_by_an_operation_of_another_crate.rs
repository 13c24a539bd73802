// H42 (E0133): the driver that a call is passed on to is found at any address, by a macro of a
// third crate.
#![forbid(unsafe_code)]
extern crate third;
use cuda_rt::driver::{Driver, DriverResult, RawEvent};
use std::sync::Arc;
pub struct Mine(usize, Vec<Arc<dyn Driver>>);
impl Mine {
    cuda_rt::driver::event_calls! { forward to |this: &Mine| -> &dyn Driver {
        &*this.1[third::read!(this.0) as usize]
    }; query_event }
}
