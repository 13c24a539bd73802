// H42 (E0133): the one body of all calls reads any address, by a macro of a third crate.
#![forbid(unsafe_code)]
extern crate third;
use cuda_rt::driver::{Driver, DriverResult, RawEvent, RawStream};
use std::sync::Arc;
pub struct Mine(usize, Arc<dyn Driver>);
impl Mine {
    cuda_rt::driver::event_calls! { each |this: &Mine, _name, call(&dyn Driver)| {
        let _ = third::read!(this.0);
        call(&*this.1)
    } }
}
