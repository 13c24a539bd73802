//! Has no prelude.
#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

BODY!();
