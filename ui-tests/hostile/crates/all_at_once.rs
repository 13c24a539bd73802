//! Calls itself `core`, `alloc` and `std`, has no prelude, and macros of its own.
#![no_std]
#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

extern crate self as core;
extern crate self as alloc;
extern crate self as std;
LIES!();
macro_rules! shadows {
    ($dollar:tt $($name:ident)*) => { $(
        macro_rules! $name { ($dollar($dollar anything:tt)*) => { rust::compile_error!("a macro of the user's") }; }
    )* };
}
shadows! { $ SHADOWED!() }
BODY!();
