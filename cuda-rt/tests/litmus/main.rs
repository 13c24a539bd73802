//! Short programs and their verdicts: the checker against a brute-force oracle.

mod agreement;
mod collected;
mod names;
mod oracle;
mod parser;
mod reports;
