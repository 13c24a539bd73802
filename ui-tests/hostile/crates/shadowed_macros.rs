//! Has macros of its own with the names of the standard library's and of ours.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

macro_rules! shadows {
    ($dollar:tt $($name:ident)*) => { $(
        macro_rules! $name { ($dollar($dollar anything:tt)*) => { rust::compile_error!("a macro of the user's") }; }
    )* };
}
shadows! { $ SHADOWED!() }
BODY!();
