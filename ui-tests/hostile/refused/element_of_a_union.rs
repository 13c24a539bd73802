// H42 (E0133, E0277): `__element!` is given a union, of which it reads a field.
#![forbid(unsafe_code)]
#[derive(Clone, Copy)]
#[repr(C)]
union Either {
    number: u32,
}
device_std::__element! {
    Either { number: u32, }
}
