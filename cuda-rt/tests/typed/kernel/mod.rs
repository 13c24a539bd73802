//! Kernels: what the host knows of them, and what a program around them can bring.

mod attacks;
mod signature;
