//! Headers of programs that must not compile, and their errors: shared by `ui-tests` and the tasks.
//!
//! `xtask` depends on published packages only, so that `cargo package --workspace` can verify it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

/// Starts of lines that say more about a case, and are no part of its reason.
const KEYS: [&str; 3] = ["// Table: ", "// Through a bound: ", "// Twin: "];

/// The header in a case's first lines: `// H01 (E0277): ..`, and perhaps `// Twin: ..`. The reason
/// goes on over the comment lines that follow, up to one of these lines, a blank line or code.
#[derive(Debug)]
pub struct Header {
    /// `H01`.
    pub hazard: String,
    /// The expected errors, in the words of [`refusals`].
    pub expected: BTreeSet<String>,
    /// The harm that the program would do.
    pub reason: String,
    /// The twin's name, if the twin belongs to another case.
    pub twin: Option<String>,
}

impl Header {
    /// Reads the header of a case; `None` if the case does not start in the form of a header.
    #[must_use]
    pub fn of(source: &str) -> Option<Self> {
        let is_key = |line: &&str| KEYS.iter().any(|key| line.starts_with(key));
        let lines = source.lines().take_while(|line| !is_key(line));
        let lines: Vec<&str> = lines.map_while(|line| line.strip_prefix("// ")).collect();
        let text = lines.join(" ");
        let (hazard, rest) = text.split_once(" (")?;
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

/// The kinds of a compiler's errors: error codes, `lifetime`, `lint` and `macro`.
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
            text if text.starts_with("no rules expected") => "macro",
            text if text.contains("`unsafe`") => "lint",
            _ => "macro",
        };
        Some(kind.to_owned())
    };
    stderr.lines().filter_map(kind).collect()
}
