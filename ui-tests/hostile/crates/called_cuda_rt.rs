//! Calls itself `cuda_rt` and `device_std`, the names that procedural macros know.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

extern crate self as cuda_rt;
extern crate self as device_std;
pub use real::*;
pub use real_std::__element;
pub mod rt {
    pub use real_std::rt::*;
}
pub mod __private {
    pub use real::__private::*;
}
BODY!();
