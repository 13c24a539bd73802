//! The book of cuda-rt: `cargo test -p cuda-rt-book` compiles and runs its programs.
//!
//! The chapters are the Markdown files in `src`, in the form that mdBook expects. Each Rust block
//! of a chapter is a doctest of the chapter's module here. It runs on the first GPU, or on the
//! simulated device. `tests/shown.rs` compares the blocks that a chapter quotes with their files.
//! `tests/names.rs` compares the calls that a chapter names with the lists in `docs/surface`.
//! Programs of other libraries are in `programs`.
//! `cargo xtask book` runs all checks, and builds the HTML if mdBook is installed.
#![forbid(unsafe_code)]

/// Declares a module for the doctests of each chapter.
macro_rules! chapters {
    ($($name:ident = $file:literal;)*) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("src/", $file))]
        mod $name {}
    )*};
}

chapters! {
    ten_minutes = "ten-minutes.md";
    ideas = "ideas.md";
    which_one = "which-one.md";
    pitfalls = "pitfalls.md";
    how_to = "how-to.md";
    coming_from = "coming-from.md";
    under_the_hood = "under-the-hood.md";
    reference = "reference.md";
}
