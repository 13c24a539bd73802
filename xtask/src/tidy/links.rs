//! Checks that the links of documents resolve, and that the files that documents name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::text::is_fence;

/// Kinds of files that a document names as files of the tree.
const KINDS: &[&str] = &["rs", "md", "toml", "jsonl", "edit", "supp", "stderr", "svg", "py"];

/// Characters of patterns and placeholders. A word with one of them names no file.
const PLACEHOLDERS: &[char] = &['*', '<', '>', '{', '}', '$', '~', '…', ' ', ':', '(', '"'];

/// The files and folders that documents may name.
pub(crate) struct Tree<'a> {
    root: &'a Path,
    paths: BTreeSet<String>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(root: &'a Path, files: &[String]) -> Self {
        let mut paths = BTreeSet::new();
        for file in files {
            let above = Path::new(file).ancestors().filter_map(Path::to_str);
            paths.extend(above.map(str::to_owned));
        }
        Self { root, paths }
    }

    /// The errors in a document. The page of a package may have no relative links.
    pub(crate) fn wrong_in(&self, file: &str, document: &str, is_page: bool) -> Vec<String> {
        let mut in_block = false;
        let mut wrong = Vec::new();
        for (number, line) in (1..).zip(document.lines()) {
            if is_fence(line.trim_start()) {
                in_block = !in_block;
            }
            if in_block {
                continue;
            }
            let links = links_of(line).filter_map(|link| self.wrong_link(file, link, is_page));
            wrong.extend(links.map(|why| format!("{file}:{number}: {why}")));
            let named = names_of(line).filter(|name| !self.has(file, name));
            wrong.extend(named.map(|name| format!("{file}:{number}: there is no `{name}`")));
        }
        wrong
    }

    fn wrong_link(&self, file: &str, link: &str, is_page: bool) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = match path {
            "" => file.to_owned(),
            path => resolve(folder_of(file), path),
        };
        if is_page && !path.is_empty() {
            return Some(format!("{link} leads nowhere from a registry's page"));
        }
        if !self.paths.contains(&target) {
            return Some(format!("{link} leads nowhere"));
        }
        if heading.is_empty() {
            return None;
        }
        let text = fs::read_to_string(self.root.join(&target)).unwrap_or_default();
        (!headings(&text).contains(heading)).then(|| format!("{target} has no heading #{heading}"))
    }

    /// Whether a name stands for a file: a path from the document or from the root, or the end of a
    /// path.
    fn has(&self, file: &str, name: &str) -> bool {
        let end = format!("/{name}");
        self.paths.contains(&resolve(folder_of(file), name))
            || self.paths.iter().any(|path| path == name || path.ends_with(&end))
    }
}

fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path from a folder, as a path from the root.
pub(crate) fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The targets of links in a line: `[text](target)`, and `[name]: target`.
fn links_of(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1);
    let inline = inline.filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target.trim());
    inline.chain(definition)
}

/// The files that a line names in backticks.
fn names_of(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|word| {
        let kind = Path::new(word).extension().and_then(|kind| kind.to_str());
        kind.is_some_and(|kind| KINDS.contains(&kind)) && !word.contains(PLACEHOLDERS)
    })
}

/// The names by which links refer to the headings of a document.
fn headings(document: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut found = BTreeSet::new();
    for line in document.lines() {
        if is_fence(line.trim_start()) {
            in_block = !in_block;
        } else if !in_block && line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_in(document: &str, is_page: bool) -> Vec<String> {
        let files = ["docs/a.md", "docs/other.md", "src/lib.rs", "README.md"].map(str::to_owned);
        Tree::new(Path::new("/nowhere"), &files).wrong_in("docs/a.md", document, is_page)
    }

    #[test]
    fn links_that_lead_somewhere_are_right() {
        let document = "[a](other.md), [b](../src/lib.rs) and [c](../src) [d](https://e.org/x)\n\
                        [e]: ../README.md\n```\n[f](nothing)\n```\n";
        assert_eq!(wrong_in(document, false), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let document = "[a](lib.rs)\n[b]: ../docs/none.md\n![c\nd](x.svg)\n[e](other.md#none)\n";
        assert_eq!(
            wrong_in(document, false),
            [
                "docs/a.md:1: lib.rs leads nowhere",
                "docs/a.md:2: ../docs/none.md leads nowhere",
                "docs/a.md:4: x.svg leads nowhere",
                "docs/a.md:5: docs/other.md has no heading #none",
            ]
        );
    }

    #[test]
    fn pages_of_packages_have_no_relative_links() {
        assert_eq!(
            wrong_in("[a](other.md) [b](https://e.org)\n", true),
            ["docs/a.md:1: other.md leads nowhere from a registry's page"]
        );
    }

    #[test]
    fn files_that_are_named_exist() {
        assert_eq!(
            wrong_in(
                "`src/lib.rs`, `lib.rs`, `cases/*.rs`, `hNN_<x>.rs`, `a.rs.b`, `Vec::new`\n",
                false
            ),
            [""; 0]
        );
        assert_eq!(
            wrong_in("`src/gone.rs` and `ib.rs`\n", false),
            [
                "docs/a.md:1: there is no `src/gone.rs`",
                "docs/a.md:1: there is no `ib.rs`"
            ]
        );
    }

    #[test]
    fn headings_are_called_as_links_call_them() {
        let headings =
            headings("# Holes that were found, and closed\n```\n# no heading\n```\n### 4. A `failed` wait\n");
        let expected = ["holes-that-were-found-and-closed", "4-a-failed-wait"];
        assert_eq!(headings, expected.map(str::to_owned).into());
    }
}
