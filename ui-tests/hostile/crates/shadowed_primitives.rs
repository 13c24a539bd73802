//! Has types of its own with the names of the primitive ones.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

pub struct u8;
pub struct u16;
pub type u32 = rust::primitive::u16;
pub type u64 = rust::primitive::u32;
pub struct u128;
pub type usize = rust::primitive::u8;
pub struct i8;
pub struct i16;
pub struct i32;
pub struct i64;
pub struct i128;
pub struct isize;
pub type f32 = rust::primitive::f64;
pub struct f64;
pub struct bool;
pub struct char;
pub struct str;
BODY!();
