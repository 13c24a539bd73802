//! Shadows nothing: the results of this crate are what the others must have.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

BODY!();
