//! Every case is refused, with its committed message.

#[test]
fn cases_do_not_compile() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
