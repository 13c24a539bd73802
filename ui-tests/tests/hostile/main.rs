//! Our macros in crates that try to change the meaning of the macros' output.
//!
//! `hostile/body.rs` calls every exported macro, and prints the results: names, hashes of layouts,
//! values computed by kernels. Each file in `hostile/crates` is a crate around this body that
//! shadows as many names as it can. It must be refused, or print the same results as the honest
//! crate. Each file in `hostile/refused` calls a macro by hand with input that the macro must
//! refuse. Its first comment says how it is refused.
//!
//! `definitions` reads the macros themselves: the code where `unsafe` is allowed, and the names
//! that they use. `brands` reads the types that carry promises: their variance in lifetimes and
//! tags.
#![forbid(unsafe_code)]

mod bindings;
mod brands;
mod definitions;
mod macros;
mod rustc;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustc::Rustc;

/// Macros that are useless in crates for the host, or in crates that forbid `unsafe`, and the place
/// of their hostile crate.
const ELSEWHERE: [(&str, &str); 3] = [
    (
        "__entry",
        "kernel-build/tests/build/main.rs: a_hostile_crate_of_kernels_has_the_ptx_of_an_honest_one",
    ),
    (
        "foreign_kernel",
        "ui-tests/tests/hostile/main.rs: each_hostile_crate_may_declare_foreign_kernels",
    ),
    (
        "__foreign_kernel",
        "ui-tests/tests/hostile/main.rs: each_hostile_crate_may_declare_foreign_kernels",
    ),
];

/// Names of the standard library's macros, except those that bytemuck's derives call by name.
const STANDARD: &str = "assert_eq assert_ne cfg column compile_error concat concat_idents dbg debug_assert env eprint \
     eprintln file format format_args include include_bytes include_str line matches module_path option_env print println \
     stringify thread_local todo unimplemented unreachable vec write writeln offset_of addr_of ready pin";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The programs in a folder, by name.
fn programs(name: &str) -> BTreeMap<String, String> {
    fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                read(&path),
            )
        })
        .collect()
}

/// The text of a hostile crate, with its placeholders for common parts replaced.
fn complete(text: &str) -> String {
    complete_with(text, "body.rs")
}

/// As [`complete`], with the body in this file.
fn complete_with(text: &str, body: &str) -> String {
    let names: Vec<String> = macros::exported().into_iter().map(|found| found.name).collect();
    let body = read(&folder(body));
    let shadows_macros = text.contains("SHADOWED!()");
    let shadow = |name: &str| {
        format!(
            "macro_rules! {name} {{ ($($any:tt)*) => {{ ::rust::compile_error!(\"a macro of the user's\") }}; }}\n"
        )
    };
    let after = if shadows_macros {
        shadow("assert") + &shadow("panic")
    } else {
        String::new()
    };
    let body = body.replace("AFTER_DERIVES!();", &after);
    text.replace("LIES!();", &read(&folder("lies.rs")))
        .replace("SHADOWED!()", &format!("{STANDARD} {}", names.join(" ")))
        .replace("BODY!();", &body)
}

#[test]
fn each_hostile_crate_has_the_results_of_the_honest_one() {
    let rustc = Rustc::new("crates");
    let crates = programs("crates");
    assert!(crates.len() >= 14, "only {} crates were found", crates.len());
    let sources: Vec<(String, String)> = crates
        .iter()
        .map(|(name, text)| (name.clone(), complete(text)))
        .collect();
    rustc.file("none.ptx", &read(&folder("none.ptx")));
    let failures: Vec<String> = rustc
        .libraries(&sources)
        .into_iter()
        .filter_map(|(name, result)| result.err().map(|error| format!("{name}:\n{error}")))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));

    let names: Vec<&str> = crates.keys().map(String::as_str).collect();
    let printed = rustc.run(&names);
    let honest = printed["honest"].clone();
    // Without this, a body that printed nothing would agree with every crate.
    let labels = [
        "module",
        "streams",
        "device",
        "pair",
        "kernel",
        "frame",
        "7 times {3}",
    ];
    for label in labels {
        assert!(honest.contains(label), "{label} is missing:\n{honest}");
    }
    for (name, text) in &printed {
        assert_eq!(*text, honest, "the crate {name} has other results");
    }
    println!("{} crates, {} lines each", printed.len(), honest.lines().count());
}

/// A declaration promises something, so it needs a crate that does not forbid `unsafe`.
#[test]
fn each_hostile_crate_may_declare_foreign_kernels() {
    const FORBIDS: &str = "#![forbid(unsafe_code)]";
    let rustc = Rustc::new("foreign");
    let sources: Vec<(String, String)> = programs("crates")
        .iter()
        .map(|(name, text)| {
            assert!(text.contains(FORBIDS), "{name} does not forbid `unsafe`");
            (
                name.clone(),
                complete_with(&text.replace(FORBIDS, ""), "foreign.rs"),
            )
        })
        .collect();
    rustc.file("none.ptx", &read(&folder("none.ptx")));
    let failures: Vec<String> = rustc
        .libraries(&sources)
        .into_iter()
        .filter_map(|(name, result)| result.err().map(|error| format!("{name}:\n{error}")))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_call_by_hand_is_refused_for_its_reason() {
    let rustc = Rustc::new("refused");
    let programs = programs("refused");
    assert!(
        programs.len() >= 10,
        "only {} programs were found",
        programs.len()
    );
    rustc.file("none.ptx", &read(&folder("none.ptx")));
    rustc.third(&read(&folder("third.rs")));
    let sources: Vec<(String, String)> = programs.clone().into_iter().collect();
    let failures: Vec<String> = rustc
        .libraries(&sources)
        .into_iter()
        .filter_map(|(name, result)| {
            let header = xtask::Header::of(&programs[&name]);
            let Some(header) = header else {
                return Some(format!("{name} does not start with `// H42 (E0000): reason`"));
            };
            let Err(error) = result else {
                return Some(format!("{name} compiles"));
            };
            let said: Vec<&str> = error
                .lines()
                .filter(|line| !line.starts_with("error: aborting"))
                .collect();
            let found = xtask::refusals(&said.join("\n"));
            (found != header.expected).then(|| {
                format!(
                    "{name}: should be refused with {:?}, is with {found:?}:\n{error}",
                    header.expected
                )
            })
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} programs", programs.len());
}

/// A newly exported macro fails this test until the body calls it.
#[test]
fn the_body_calls_every_macro_that_is_exported() {
    let body = read(&folder("body.rs"));
    let missing: Vec<String> = macros::exported()
        .into_iter()
        .filter(|found| !ELSEWHERE.iter().any(|(name, _)| *name == found.name))
        .flat_map(|found| found.uses())
        .filter(|text| !body.contains(text))
        .collect();
    assert!(missing.is_empty(), "not in hostile/body.rs: {missing:?}");
    for (name, place) in ELSEWHERE {
        let (file, test) = place.split_once(": ").unwrap();
        let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file));
        assert!(text.contains(&format!("fn {test}()")), "{name}: {place} is gone");
    }
}
