//! Programs that must not compile, and their twins that must.
//!
//! `cases/hNN_<misuse>.rs` is a program with hazard NN. Its first line says what would go wrong
//! and, in brackets, how the compiler refuses it: an error code, or one of `lifetime` (an error
//! about lifetimes that has no code), `lint` (the crate forbids `unsafe`) and `macro` (one of our
//! macros refuses it). `cases/hNN_<misuse>.stderr` is all that the pinned compiler says, and is
//! read as documentation.
//!
//! `twins/hNN_<misuse>.rs` is the corrected program, which runs, and asserts what it computed: on
//! the GPU where there is one, and on simulated devices of several seeds. A variant of an attack
//! may name the twin of another case instead, on a line `// Twin: hNN_<misuse>`.
//!
//! `cargo test -p ui-tests` checks all of it. After a change of messages write them anew with
//! `TRYBUILD=overwrite cargo test -p ui-tests --test cases`, and read each one: does it say what is
//! wrong, on the user's own token, in the program's own words, and which call mends it?
//!
//! `cargo fmt` knows neither folder: `rustfmt --edition 2024 ui-tests/cases/*.rs
//! ui-tests/twins/*.rs`.
//!
//! Hazards that there is no way to write (H07, H10, H41) have a case all the same: the most natural
//! spelling.
//!
//! `hazards.txt` lists the hazards, and `cargo xtask hazards` writes what the tree has on each to
//! `docs/hazards.md`.
#![forbid(unsafe_code)]
