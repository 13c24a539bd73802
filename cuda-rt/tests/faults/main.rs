//! One program that uses all of the typed core, run once for each driver call that it makes, with
//! that call failing, and with that call unwinding instead of returning.
#![deny(unsafe_code)]

mod attacks;
#[path = "../devices/cases.rs"]
mod cases;
#[allow(unsafe_code, reason = "`Driver` is an `unsafe` trait")]
mod driver;
mod errors;
mod programs;
mod unwinding;
