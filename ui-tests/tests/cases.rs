//! Every case is refused, with the message that was read when it was committed.

#[test]
fn cases_do_not_compile() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
