//! The README is true: rustc prints the message that it quotes, and a doctest runs its example. The
//! book's reference has each feature.
#![forbid(unsafe_code)]

const README: &str = include_str!("../../README.md");
const WITHOUT_HANDOFF: &str = include_str!("readme/without_handoff.rs");
const MESSAGE: &str = include_str!("readme/without_handoff.stderr");
const REFERENCE: &str = include_str!("../../docs/book/src/reference.md");

/// The first block of the README that is marked with `language`.
fn block(language: &str) -> &'static str {
    let (_, rest) = README
        .split_once(&format!("```{language}\n"))
        .expect("the README has such a block");
    rest.split_once("```").expect("which ends").0
}

#[test]
fn the_example_does_not_compile_without_its_handoff() {
    let is_handoff = |line: &&str| line.contains("download.acquire(");
    let example = block("rust").lines();
    assert_eq!(example.clone().filter(is_handoff).count(), 1);
    let without: Vec<&str> = example.filter(|line| !is_handoff(line)).collect();
    assert_eq!(without, WITHOUT_HANDOFF.lines().collect::<Vec<_>>());
    trybuild::TestCases::new().compile_fail("tests/readme/without_handoff.rs");
}

#[test]
fn the_message_in_the_readme_is_rustcs() {
    // The width of gutters depends on the largest line number, and the files have other paths.
    let trim = |line: &'static str| {
        line.trim_start()
            .replace("tests/readme/without_handoff.rs", "src/main.rs")
    };
    let mut said = MESSAGE.lines().map(trim);
    for line in block("text").lines().map(trim) {
        assert!(
            said.any(|said| said == line),
            "rustc does not say, or not in this order:\n{line}\n\n{MESSAGE}"
        );
    }
}

#[test]
fn each_feature_is_described() {
    let manifest = include_str!("../Cargo.toml");
    let (_, features) = manifest
        .split_once("\n[features]\n")
        .expect("the manifest has features");
    let features = features.lines().take_while(|line| !line.starts_with('['));
    let features = features.filter_map(|line| Some(line.split_once(" = ")?.0));
    let features: Vec<&str> = features
        .filter(|name| *name != "default" && !name.starts_with('#'))
        .collect();
    assert!(features.contains(&"cuda"), "{features:?}");
    for feature in &features {
        assert!(
            REFERENCE.contains(&format!("| `{feature}` |")),
            "docs/book/src/reference.md has no row of {feature}"
        );
        assert!(
            include_str!("../src/lib.rs").contains(&format!("\n//! - `{feature}`")),
            "the list in cuda-rt/src/lib.rs has no {feature}"
        );
    }
}
