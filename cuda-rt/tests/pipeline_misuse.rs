//! Hazards that a pipeline's types refuse, each with what rustc says.
#![forbid(unsafe_code)]

#[test]
fn what_would_race_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/pipeline_misuse/*.rs");
}
