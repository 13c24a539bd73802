//! The calls that the book names are in the crates: a call that is renamed is renamed here too.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names in the book of functions of the standard library and of PyTorch, of examples, of other
/// crates, and of any kernel. A name with an underscore at its end is a beginning.
const OTHERS: &[&str] = &[
    "__cuda_array_interface__",
    "__dlpack__",
    "batch_cublas",
    "contiguous",
    "cublas_gemm",
    "drop",
    "f",
    "forget",
    "python_exchange",
    "record_stream",
    "rustacuda_derive",
    "simple_cublas",
    "take",
    "triple_buffer",
    "wait_stream",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Every name in the lists of items that other crates can call, and in the calls of the feature
/// `cust`, for which there is no list.
fn known() -> BTreeSet<String> {
    let mut text = String::new();
    let lists = fs::read_dir(root().join("docs/surface")).expect("there are lists");
    let lists = lists.map(|entry| entry.expect("it is readable").path());
    let of_cust = fs::read_dir(root().join("runtime/src/interop/cust")).expect("there is the module");
    let of_cust = of_cust.map(|entry| entry.expect("it is readable").path());
    for file in lists.chain(of_cust).filter(|path| path.is_file()) {
        text += &fs::read_to_string(file).expect("the file is readable");
    }
    words(&text).map(str::to_owned).collect()
}

/// Every name in the sources of the crates that the last chapter explains.
fn in_sources() -> BTreeSet<String> {
    let mut folders: Vec<PathBuf> = ["runtime", "driver", "driver-cuda", "simulator", "checker"]
        .map(|name| root().join(name).join("src"))
        .into();
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is readable") {
            let path = entry.expect("it is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).expect("the file is readable");
                names.extend(words(&text).map(str::to_owned));
            }
        }
    }
    names
}

/// The names in inline code of a chapter, without paths and texts of links.
fn all_named(chapter: &str) -> BTreeSet<&str> {
    let blocks = chapter.split("\n```").step_by(2);
    let codes = blocks.flat_map(|text| text.split('`').skip(1).step_by(2));
    let codes = codes.filter(|code| !code.contains('/'));
    codes
        .flat_map(words)
        .filter(|word| word.starts_with(char::is_alphabetic))
        .collect()
}

/// The text of a chapter in which inline code is code of cuda-rt: in a table, the last column.
fn of_cuda_rt(chapter: &str) -> String {
    let mut in_block = false;
    let mut text = String::new();
    for line in chapter.lines() {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            let line = line.replace("\\|", " ");
            let line = line.trim_end_matches(['|', ' ']);
            text += line.rsplit_once(" | ").map_or(line, |(_, last)| last);
            text.push('\n');
        }
    }
    text
}

/// The names in inline code that are called, or that have an underscore.
fn named(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for code in text.split('`').skip(1).step_by(2) {
        for word in words(code) {
            let end = word.as_ptr() as usize - code.as_ptr() as usize + word.len();
            let is_called = code[end..].starts_with(['(']) || code[end..].starts_with("::<");
            let is_snake = word.contains('_') && word.chars().all(|c| c == '_' || !c.is_uppercase());
            if (is_called || is_snake) && word != "_" {
                found.insert(word);
            }
        }
    }
    found
}

#[test]
fn calls_that_the_book_names_exist() {
    let known = known();
    let mut unknown = Vec::new();
    let mut count = 0;
    for chapter in ["ideas", "which-one", "how-to", "coming-from", "reference"] {
        let file = root().join(format!("docs/book/src/{chapter}.md"));
        let text = of_cuda_rt(&fs::read_to_string(file).expect("the chapter is readable"));
        for name in named(&text) {
            count += 1;
            let is_known = OTHERS.contains(&name)
                || match name.ends_with('_') {
                    true => known.iter().any(|known| known.starts_with(name)),
                    false => known.contains(name),
                };
            if !is_known {
                unknown.push(format!("{chapter}: {name}"));
            }
        }
    }
    assert_eq!(unknown, [""; 0], "no item of docs/surface has this name");
    assert!(count > 80, "only {count} names were found");
}

#[test]
fn names_under_the_hood_stand_in_the_sources() {
    let mut known = in_sources();
    // Folders of tests, and names of the crates in the repository.
    known.extend(["properties", "faults", "surface", "ui"].map(str::to_owned));
    let text = include_str!("../src/under-the-hood.md");
    let named = all_named(text);
    let unknown: Vec<_> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert_eq!(unknown, [&""; 0], "the sources have no such name");
    assert!(named.len() > 50, "only {} names were found", named.len());
}

#[test]
fn a_name_that_is_gone_is_noticed() {
    let text =
        of_cuda_rt("Call `stream.acquire_al(x)`.\n| `theirs()` | `ours(\\|x\\| y)?` |\n```\n`no()`\n```\n");
    assert_eq!(named(&text), BTreeSet::from(["acquire_al", "ours"]));
    assert!(!known().contains("acquire_al") && known().contains("acquire_all"));

    let text = "See `EventLeas` in `runtime/src`.\n\n```rust\nlet no = `1`;\n```\nAnd `Fence`.\n";
    assert_eq!(all_named(text), BTreeSet::from(["EventLeas", "Fence"]));
    let known = in_sources();
    assert!(!known.contains("EventLeas") && known.contains("EventLease"));
}
