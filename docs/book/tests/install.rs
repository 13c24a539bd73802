//! The manifests of two chapters, and the commands of the first one, name packages and places that
//! are there.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

const CHAPTER: &str = include_str!("../src/ten-minutes.md");
const REFERENCE: &str = include_str!("../src/reference.md");
const HOW_TO: &str = include_str!("../src/how-to.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifest(folder: &str) -> String {
    let file = root().join(folder).join("Cargo.toml");
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The lines of all blocks of this kind in the chapter.
fn lines<'a>(chapter: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("\n```{kind}\n");
    let blocks = chapter.split(fence.as_str()).skip(1).collect::<Vec<_>>();
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
    for line in lines(CHAPTER, "toml").filter(|line| line.contains('=')) {
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
fn the_reference_names_packages_of_the_repository() {
    let version = manifest("");
    let version = value(&version, "version").expect("the workspace has a version");
    let folders = [
        ("cuda-handoff", "cuda-rt"),
        ("cuda-handoff-kernels", "device-kernels"),
        ("cuda-handoff-cublas", "libraries/cublas"),
        ("cuda-handoff-cufft", "libraries/cufft"),
        ("cuda-handoff-python", "libraries/python"),
        ("cuda-handoff-device", "device-std"),
    ];
    let mut found = Vec::new();
    for line in lines(REFERENCE, "toml").filter(|line| line.contains('=')) {
        let package = value(line, "package").expect("the line names a package");
        let (_, folder) = folders
            .iter()
            .find(|(name, _)| *name == package)
            .expect("a known package");
        assert_eq!(value(&manifest(folder), "name"), Some(package), "{line}");
        match value(line, "path") {
            Some(path) => assert_eq!(path, format!("../cuda-rt/{folder}")),
            None => assert_eq!(value(line, "tag"), Some(&*format!("v{version}")), "{line}"),
        }
        found.push(package);
    }
    // By path and by git: the packages that every program needs.
    let [runtime, kernels, others @ ..] = &folders[..] else {
        panic!("two packages are for every program");
    };
    let twice = [runtime, kernels, runtime, kernels].into_iter();
    let mut expected: Vec<&str> = twice.chain(others).map(|(name, _)| *name).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// The lines for libraries, in the chapter and on the page of their crate.
#[test]
fn the_lines_for_libraries_name_packages_of_the_repository() {
    let python = include_str!("../../../libraries/python/src/lib.rs").replace("//! ", "");
    let cublas = include_str!("../../../libraries/cublas/src/lib.rs").replace("//! ", "");
    let cufft = include_str!("../../../libraries/cufft/src/lib.rs").replace("//! ", "");
    let mut found = Vec::new();
    for text in [HOW_TO, &python, &cublas, &cufft] {
        let dependencies = lines(text, "toml").filter(|line| line.contains("package = "));
        for line in dependencies {
            let package = value(line, "package").expect("the line names a package");
            let path = value(line, "path").expect("the line names a path");
            let folder = path
                .strip_prefix("../cuda-rt/")
                .expect("a clone beside the program");
            assert_eq!(value(&manifest(folder), "name"), Some(package), "{line}");
            found.push(package.to_owned());
        }
    }
    let [all, python] = ["cuda-handoff", "cuda-handoff-python"];
    let [cublas, cufft] = ["cuda-handoff-cublas", "cuda-handoff-cufft"];
    let chapter = [cublas, cufft, all, python];
    assert_eq!(
        found,
        [&chapter[..], &[all, python, all, cublas, all, cufft]].concat()
    );
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

/// `xtask/tests/new.rs` runs the program that the command makes.
#[test]
fn the_program_with_a_kernel_is_made_by_a_task() {
    let commands: Vec<&str> = lines(CHAPTER, "console").collect();
    let command = "$ cd cuda-rt && cargo xtask new ../my-program";
    assert!(commands.contains(&command), "{commands:?}");
    let tasks = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    assert!(tasks.contains("[\"new\", path]"), "the task has another name");
    let template = fs::read_to_string(root().join("templates/program/README.md")).unwrap();
    assert!(template.contains("cargo run"), "the program is not run so");
}
