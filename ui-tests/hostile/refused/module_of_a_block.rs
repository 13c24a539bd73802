// H42 (macro): `kernel_module!` is given an expression that is no text.
#![forbid(unsafe_code)]
device_std::kernel_module!({
    const PACKAGE: &str = "another";
    "none.ptx"
});
