//! Every line of `captures.jsonl` names a test that exists.

use std::fs;
use std::path::Path;

use serde_json::Value;

const LINES: &str = include_str!("captures.jsonl");
/// The collected hazards that capture, or launch a graph.
const IDS: [&str; 10] = [
    "HC01", "HC05", "HC06", "HC07", "HC15", "DC19", "DC20", "DC21", "BG24", "CU04r",
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Whether the test that a line names exists and is run.
fn is_there(shown_by: &str) -> bool {
    let suite = read("tests/conformance/main.rs");
    let run_by_suite = |name: &str| suite.lines().any(|line| line.trim() == name);
    match *shown_by.split(' ').collect::<Vec<_>>() {
        ["conformance", name] => {
            let (group, case) = name.split_once("::").expect("a group");
            let body = read(&format!("tests/conformance/cases/{group}.rs"));
            let listed = suite
                .split_once(&format!("    {group} {{"))
                .and_then(|(_, rest)| rest.split_once('}'));
            body.contains(&format!("pub(crate) fn {case}("))
                && listed.is_some_and(|(list, _)| list.lines().any(|line| line.trim() == format!("{case},")))
        }
        ["cuda_only", name] => run_by_suite(&format!("{name},")),
        ["case", name] => {
            let source = read(&format!("../ui-tests/cases/{name}.rs"));
            let message = read(&format!("../ui-tests/cases/{name}.stderr"));
            source.starts_with("// H") && message.contains("error")
        }
        ["test", file, name] => read(&format!("tests/{file}.rs")).contains(&format!("#[test]\nfn {name}()")),
        _ => false,
    }
}

#[test]
fn each_collected_capture_is_shown_by_a_test() {
    let lines: Vec<Value> = LINES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect();
    let ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, IDS);
    for line in &lines {
        let shown_by = line["shown_by"].as_array().unwrap();
        assert!(!shown_by.is_empty(), "nothing shows {}", line["id"]);
        for name in shown_by {
            let name = name.as_str().unwrap();
            assert!(is_there(name), "{}: `{name}` is not there", line["id"]);
        }
    }
}
