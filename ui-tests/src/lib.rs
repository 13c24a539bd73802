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

use std::collections::BTreeSet;

/// What the first lines of a case say: `// H01 (E0277): ..`, and perhaps `// Twin: ..`.
#[derive(Debug)]
pub struct Header {
    /// `H01`.
    pub hazard: String,
    /// How it is refused, in the words of [`refusals`].
    pub expected: BTreeSet<String>,
    /// What would go wrong.
    pub reason: String,
    /// The twin, where it is another case's.
    pub twin: Option<String>,
}

impl Header {
    /// Reads the header of a case; none if its first line is not as it should be.
    #[must_use]
    pub fn of(source: &str) -> Option<Self> {
        let (hazard, rest) = source.lines().next()?.strip_prefix("// ")?.split_once(" (")?;
        let (expected, reason) = rest.split_once("): ")?;
        let twin = source.lines().find_map(|line| line.strip_prefix("// Twin: "));
        (!reason.is_empty()).then(|| Self {
            hazard: hazard.to_owned(),
            expected: expected.split(", ").map(str::to_owned).collect(),
            reason: reason.to_owned(),
            twin: twin.map(str::to_owned),
        })
    }
}

/// How the compiler refused a program: error codes, `lifetime`, `lint` and `macro`.
#[must_use]
pub fn refusals(stderr: &str) -> BTreeSet<String> {
    let kind = |line: &str| {
        let error = line.strip_prefix("error")?;
        if let Some(code) = error.strip_prefix('[') {
            return Some(code.split(']').next()?.to_owned());
        }
        let kind = match error.strip_prefix(": ")? {
            text if text.starts_with("lifetime may not live long enough") => "lifetime",
            text if text.ends_with("is not general enough") => "lifetime",
            text if text.contains("`unsafe`") => "lint",
            _ => "macro",
        };
        Some(kind.to_owned())
    };
    stderr.lines().filter_map(kind).collect()
}
