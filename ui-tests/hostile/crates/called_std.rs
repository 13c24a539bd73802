//! Calls itself `std`.
#![no_std]
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

extern crate self as std;
LIES!();
BODY!();
