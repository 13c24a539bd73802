// H42 (lint): `__foreign_kernel!` is called behind its check of `unsafe`, with another word in the
// place of `unsafe`, so that no one answers for the kernel.
#![forbid(unsafe_code)]
extern crate cuda_rt as real;

real::__foreign_kernel! {
    @munch { [] [pub] async f F ; } [] [] [] [] [] y: &mut [f32],
}

fn main() {}
