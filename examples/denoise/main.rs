//! Denoises a video end to end.
fn main() {}
