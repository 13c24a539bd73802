//! The suite is complete: each case says why it fails, fails for that reason, and has a twin.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use xtask::{Header, refusals};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names of the programs in a folder, without extension.
fn programs(name: &str, extension: &str) -> BTreeSet<String> {
    fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn read(name: &str, program: &str, extension: &str) -> String {
    let path = folder(name).join(program).with_extension(extension);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn for_each_case(check: impl Fn(&str, &str) -> Result<(), String>) {
    let cases = programs("cases", "rs");
    assert!(cases.len() > 50, "only {} cases were found", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let found = check(case, &read("cases", case, "rs"));
            found.err().map(|reason| format!("{case}: {reason}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_case_says_which_hazard_it_has_and_how_it_is_refused() {
    for_each_case(|case, source| {
        let header =
            Header::of(source).ok_or("it does not start with `// HNN (E0000): what would go wrong`")?;
        let prefix = format!("{}_", header.hazard.to_lowercase());
        match case.starts_with(&prefix) {
            true => Ok(()),
            false => Err(format!("the header says {}", header.hazard)),
        }
    });
}

#[test]
fn each_case_is_refused_as_its_header_says() {
    for_each_case(|case, source| {
        let expected = Header::of(source).ok_or("no header")?.expected;
        let found = refusals(&read("cases", case, "stderr"));
        match expected == found {
            true => Ok(()),
            false => Err(format!("should be refused with {expected:?}, is with {found:?}")),
        }
    });
}

#[test]
fn each_error_points_into_the_program() {
    for_each_case(|case, _| {
        let stderr = read("cases", case, "stderr");
        let own = format!("--> cases/{case}.rs:");
        for error in stderr.split("\nerror").filter(|error| error.contains("-->")) {
            let place = error
                .lines()
                .find(|line| line.contains("-->"))
                .unwrap_or_default();
            if !place.contains(&own) {
                return Err(format!("the caret is elsewhere: {}", place.trim()));
            }
        }
        Ok(())
    });
}

#[test]
fn each_case_has_a_twin() {
    let twins = programs("twins", "rs");
    for_each_case(|case, source| {
        let named = Header::of(source).and_then(|header| header.twin);
        let twin = named.as_deref().unwrap_or(case);
        match twins.contains(twin) {
            true => Ok(()),
            false => Err(format!("twins/{twin}.rs is missing")),
        }
    });
}

#[test]
fn each_message_belongs_to_a_case() {
    let stray: Vec<_> = programs("cases", "stderr")
        .difference(&programs("cases", "rs"))
        .cloned()
        .collect();
    assert!(stray.is_empty(), "messages without a case: {stray:?}");
}

#[test]
fn every_twin_is_run() {
    let list = read("tests", "twins", "rs");
    let missing: Vec<_> = programs("twins", "rs")
        .into_iter()
        .filter(|twin| !list.lines().any(|line| line.trim() == format!("{twin};")))
        .collect();
    assert!(missing.is_empty(), "not listed in tests/twins.rs: {missing:?}");
}

#[test]
fn headers_and_messages_are_read_as_written() {
    let read = Header::of("// H25 (E0277, E0521): a buffer leaves.\nfn main() {}").unwrap();
    assert_eq!(read.hazard, "H25");
    assert_eq!(read.expected, ["E0277", "E0521"].map(str::to_owned).into());
    assert_eq!((&*read.reason, read.twin), ("a buffer leaves.", None));
    assert!(Header::of("// H25 E0277: a buffer leaves.").is_none());
    for end in [
        "// Twin: tour\n",
        "// Table: leaves\n",
        "// Through a bound: leave\n",
        "\n",
        "//\n",
        "",
    ] {
        let source =
            format!("// H25 (E0277,\n// E0521): a buffer\n// leaves.\n{end}fn main() {{}}\n// Twin: tour\n");
        let read = Header::of(&source).unwrap();
        assert_eq!(
            (&*read.reason, read.twin.as_deref()),
            ("a buffer leaves.", Some("tour"))
        );
        assert_eq!(read.expected.len(), 2);
    }
    let found = refusals(
        "error[E0382]: borrow of moved value: `a`\nerror: implementation of `Fn` is not general enough\n  | error: no\n\
         error: usage of an `unsafe` block\nerror: a kernel is not generic\n",
    );
    assert_eq!(
        found,
        ["E0382", "lifetime", "lint", "macro"].map(str::to_owned).into()
    );
}
