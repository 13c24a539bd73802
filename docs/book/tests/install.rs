//! The manifest and the commands of the first chapter name packages and places that are there.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

const CHAPTER: &str = include_str!("../src/ten-minutes.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifest(folder: &str) -> String {
    let file = root().join(folder).join("Cargo.toml");
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The lines of all blocks of this kind.
fn lines(kind: &str) -> impl Iterator<Item = &str> {
    let fence = format!("\n```{kind}\n");
    let blocks = CHAPTER.split(fence.as_str()).skip(1).collect::<Vec<_>>();
    blocks
        .into_iter()
        .flat_map(|rest| rest.split("\n```").next().unwrap_or_default().lines())
}

/// The text between quotes behind `key = `.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{key} = \""))?;
    rest.split('"').next()
}

#[test]
fn the_dependencies_are_packages_of_the_repository() {
    let mut found = Vec::new();
    for line in lines("toml").filter(|line| line.contains('=')) {
        let package = value(line, "package").expect("the line names a package");
        let path = value(line, "path").expect("the line names a path");
        let folder = path
            .strip_prefix("../cuda-rt/")
            .expect("the clone is beside the program");
        assert_eq!(value(&manifest(folder), "name"), Some(package), "{line}");
        // The programs of the chapter use the name before the `=`.
        let name = line.split(' ').next().unwrap_or_default().replace('-', "_");
        assert!(CHAPTER.contains(&format!("use {name}::")), "{line}");
        found.push(package);
    }
    assert_eq!(found, ["cuda-handoff", "cuda-handoff-kernels"]);
}

#[test]
fn the_version_of_rust_is_the_manifests() {
    let manifest = manifest("");
    let version = value(&manifest, "rust-version").expect("the workspace names a version");
    assert!(
        CHAPTER.contains(&format!("stable Rust {version} or later")),
        "{version}"
    );
}

/// `sed` writes `../cuda-rt` for `../..`, so each path in the manifest must begin so.
#[test]
fn the_example_with_a_kernel_can_be_copied() {
    let commands: Vec<&str> = lines("console").collect();
    assert!(
        commands.contains(&"$ cp -r cuda-rt/examples/own-kernels my-program"),
        "{commands:?}"
    );
    let sed = r"$ cd my-program && sed -i 's|\.\./\.\.|../cuda-rt|' Cargo.toml";
    assert!(commands.contains(&sed), "{commands:?}");

    let manifest = manifest("examples/own-kernels");
    let paths: Vec<&str> = manifest.lines().filter_map(|line| value(line, "path")).collect();
    let mut outside = 0;
    for path in paths {
        match path.strip_prefix("../../") {
            Some(folder) => {
                assert!(root().join(folder).join("Cargo.toml").is_file(), "{path}");
                outside += 1;
            }
            None => assert!(!path.contains(".."), "{path} leads out of the copy"),
        }
    }
    assert!(outside > 1, "the example depends on the repository");
}
