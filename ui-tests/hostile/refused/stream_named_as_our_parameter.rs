// H42 (E0109, E0310): a stream tag has the name that `streams!` gives to its parameter.
#![forbid(unsafe_code)]
cuda_rt::streams! { pub D; }
