//! Kernels that must not compile, with rustc's messages. Each case is named after its attack
//! (H28–H32).
#![forbid(unsafe_code)]

#[test]
fn attacks_on_kernels_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
