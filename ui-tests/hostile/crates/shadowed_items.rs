//! Has items with the names that our macros give to what is theirs.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

pub struct __D;
pub struct __S;
pub struct D;
pub struct S;
pub struct P0;
pub struct P1;
pub struct KERNEL;
pub struct PTX;
pub struct PACKAGE;
pub struct __Format;
pub struct __CudaRtKernel;
pub struct __CudaRtParameter1;
pub struct __CudaRtElement1;
pub struct OFFSET;
pub mod kernel {}
pub mod rt {}
pub mod layout {}
pub mod print {}
pub mod __private {}
pub mod element {}
BODY!();
