//! Tasks of a maintainer.
fn main() {}
