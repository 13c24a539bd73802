//! `cargo xtask tidy --check`: checks that files are short, that lines are wrapped, and that links
//! in documents resolve.
//!
//! A Rust file has at most [`MOST_LINES`] lines. At most [`WIDTH`] columns have: a comment in Rust,
//! with its examples, a line of a document, of a manifest or other configuration, and of a script.
//! Tables and code blocks of documents may be wider, and so may rows of configuration (`{ .. },`),
//! and a word that fills its line; in a comment in Rust, only an address (`https://..`).
//! The file and heading of a document's relative link exist. A file that a document names in
//! backticks exists. The page of a package (`readme`) has no relative link, because registries
//! resolve relative links for few hosts only. Packages of the workspace ask for each other's exact
//! version. No assertion of the device library has arithmetic that may wrap.

mod arithmetic;
pub(crate) mod links;
pub(crate) mod text;
mod versions;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The most lines of a Rust file.
const MOST_LINES: usize = 600;

/// The most columns of a line of a comment, a document, a configuration or a script.
const WIDTH: usize = 100;

/// The folder of scripts whose names have no extension.
const SCRIPTS: &str = ".ci/";

pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let files = files()?;
    let pages: BTreeSet<String> = files.iter().filter_map(|file| package_page(file)).collect();
    if pages.is_empty() {
        return Err("no package has a page: has the form of manifests changed?".into());
    }
    let tree = links::Tree::new(root(), &files);
    let mut wrong = versions::wrong()?;
    for file in &files {
        let is = |extension: &str| Path::new(file).extension().is_some_and(|its| its == extension);
        if ["rs", "c", "cu"].into_iter().any(is) {
            let source = fs::read_to_string(root().join(file))?;
            wrong.extend(text::length(file, &source));
            wrong.extend(text::wide_comments(file, &source));
            wrong.extend(arithmetic::in_assertions(file, &source));
        } else if is("md") {
            let document = fs::read_to_string(root().join(file))?;
            wrong.extend(text::wide_lines(file, &document));
            wrong.extend(tree.wrong_in(file, &document, pages.contains(file)));
        } else if is("toml") {
            let configuration = fs::read_to_string(root().join(file))?;
            wrong.extend(text::wide_configuration(file, &configuration));
        } else if is("sh") || is("py") || file.starts_with(SCRIPTS) {
            let script = fs::read_to_string(root().join(file))?;
            wrong.extend(text::wide_script(file, &script));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("the tree is not tidy:\n  {}", wrong.join("\n  ")).into()),
    }
}

/// The document that a manifest of a published package names as its `readme`.
fn package_page(file: &str) -> Option<String> {
    let folder = file.strip_suffix("Cargo.toml")?;
    let manifest = fs::read_to_string(root().join(file)).ok()?;
    let page = manifest
        .lines()
        .find_map(|line| line.strip_prefix("readme = \"")?.strip_suffix('"'))?;
    Some(links::resolve(folder.trim_end_matches('/'), page))
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// The files of the tree, from its root.
pub(crate) fn files() -> Result<Vec<String>, Box<dyn Error>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err("`git ls-files` cannot list the files of the tree".into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    let files = listed.lines().map(str::to_owned);
    Ok(files.filter(|file| root().join(file).is_file()).collect())
}
