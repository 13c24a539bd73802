//! The programs of `programs.jsonl`: the checker and the oracle give each its expected verdict.

use hazard_programs::Program;
use serde_json::Value;

#[test]
fn every_program_gets_its_verdict() {
    let (mut racy, mut ordered) = (0, 0);
    for line in include_str!("programs.jsonl").lines() {
        let program: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let (id, verdict) = (
            program["id"].as_str().unwrap(),
            program["verdict"].as_str().unwrap(),
        );
        let statements: Vec<&str> = program["sequence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|statement| statement.as_str().unwrap())
            .collect();
        let races = Program::parse(&statements).and_then(|program| program.run());
        let races = races.unwrap_or_else(|error| panic!("{id}: {error}"));
        let found = if races.is_empty() { "ok" } else { "race" };
        assert_eq!(found, verdict, "{id}: {races:?}");
        assert_eq!(
            crate::agreement::compare(&statements),
            Some(verdict == "race"),
            "{id}: the oracle"
        );
        *(if verdict == "race" {
            &mut racy
        } else {
            &mut ordered
        }) += 1;
    }
    println!("{racy} racy, {ordered} ordered");
    assert!(racy >= 30 && ordered >= 30, "{racy} racy, {ordered} ordered");
}
