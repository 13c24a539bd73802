//! Gives everything to our macros through a macro of its own, item by item.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

macro_rules! all {
    ($($item:item)*) => { $($item)* };
}
all! {
BODY!();
}
