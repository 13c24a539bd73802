//! Kernels that must not compile, named after the attack (H28–H32), with what rustc says.
#![forbid(unsafe_code)]

#[test]
fn attacks_on_kernels_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
