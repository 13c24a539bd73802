//! Procedural macros of cuda-rt.
