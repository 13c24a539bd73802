// H42 (E0071, E0210, E0609): `__element!` is given the name of its own parameter: an `impl` for
// every type.
#![forbid(unsafe_code)]
device_std::__element! {
    T { number: u32, }, types = [T], constants = [], arguments = [], bounds = [],
}
