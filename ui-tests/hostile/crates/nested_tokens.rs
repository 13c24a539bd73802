//! Gives everything to our macros through two macros of its own, as tokens.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

macro_rules! inner {
    ($($token:tt)*) => { $($token)* };
}
macro_rules! outer {
    ($($token:tt)*) => { inner! { $($token)* } };
}
outer! {
BODY!();
}
