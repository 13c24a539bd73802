//! Programs that must not compile, and their twins that must.
//!
//! `cases/hNN_<misuse>.rs` is a program with hazard NN. Its first comment says what would go wrong
//! and, in brackets, how the compiler refuses it. That is an error code, or one of three words:
//! `lifetime` (an error about lifetimes, which has no code), `lint` (the crate forbids `unsafe`)
//! and `macro` (one of our macros refuses it). `cases/hNN_<misuse>.stderr` is the whole output of
//! the pinned compiler, and is read as documentation.
//!
//! `twins/hNN_<misuse>.rs` is the corrected program. It runs, and asserts its results: on the GPU
//! if there is one, and on simulated devices with several seeds. A variant of an attack may name
//! the twin of another case instead, on a line `// Twin: hNN_<misuse>`.
//!
//! `cargo test -p ui-tests` checks all of it. After a change of messages, write them anew with
//! `TRYBUILD=overwrite cargo test -p ui-tests --test cases`, and read each one. Does it say what is
//! wrong, on the user's own token, in the program's own words? Does it name the call that mends it?
//!
//! `cargo fmt` knows neither folder; format them with `rustfmt --edition 2024 ui-tests/cases/*.rs
//! ui-tests/twins/*.rs`.
//!
//! Some hazards cannot be written with this API (H07, H10, H41). Their case is the most natural
//! attempt.
//!
//! `hazards.txt` lists the hazards. `cargo xtask hazards` writes each hazard's cases and twins to
//! `docs/hazards.md`.
#![forbid(unsafe_code)]
