//! `cargo xtask book`: checks the book in `docs/book`, and builds its HTML if mdBook is installed.
//!
//! Each chapter is in the summary, each link leads somewhere, the programs run, and the quoted
//! blocks are excerpts of their files. The HTML is at `book/html` under the target directory. The
//! chapters link to files outside the book, as the repository's pages show them. mdBook copies only
//! the book's folder, so the task gives it a copy of the folder with these files in it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy;
use crate::tidy::links::{Tree, resolve};
use crate::tidy::text::is_fence;

/// The folder of the chapters, from the root of the tree.
const CHAPTERS: &str = "docs/book/src";

/// The list of the chapters, in the folder.
const SUMMARY: &str = "SUMMARY.md";

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let chapters = chapters()?;
    let files = tidy::files()?;
    let tree = Tree::new(tidy::root(), &files);
    let summary = text_of(SUMMARY)?;
    let mut wrong = wrong_summary(&chapters, &summary);
    for chapter in chapters.iter().map(String::as_str).chain([SUMMARY]) {
        let path = format!("{CHAPTERS}/{chapter}");
        wrong.extend(tree.wrong_in(&path, &text_of(chapter)?, false));
    }
    if !wrong.is_empty() {
        return Err(format!("the book is wrong:\n  {}", wrong.join("\n  ")).into());
    }
    println!("{} chapters, whose links lead somewhere", chapters.len());

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut test = Command::new(cargo);
    test.args(["test", "--quiet", "--locked", "--package", "cuda-rt-book"]);
    if !test.current_dir(tidy::root()).status()?.success() {
        return Err("the tests of the book fail".into());
    }
    html(&chapters)
}

/// The chapters' files in [`CHAPTERS`], without the summary.
fn chapters() -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(tidy::root().join(CHAPTERS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != SUMMARY {
            found.insert(name);
        }
    }
    Ok(found)
}

fn text_of(chapter: &str) -> io::Result<String> {
    fs::read_to_string(tidy::root().join(CHAPTERS).join(chapter))
}

/// Chapters that the summary does not list, or lists twice.
fn wrong_summary(chapters: &BTreeSet<String>, summary: &str) -> Vec<String> {
    let count = |name: &str| summary.matches(&format!("]({name})")).count();
    let wrong = chapters.iter().filter(|name| count(name) != 1);
    let mut wrong: Vec<String> = wrong
        .map(|name| format!("{CHAPTERS}/{SUMMARY}: lists {name} {} times", count(name)))
        .collect();
    if chapters.is_empty() {
        wrong.push(format!("{CHAPTERS}: no chapter"));
    }
    wrong
}

/// Builds the HTML, or says what is missing.
fn html(chapters: &BTreeSet<String>) -> Result<(), Box<dyn Error>> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tidy::root().join("target"), PathBuf::from);
    let copy = target.join("book/source");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    fs::create_dir_all(copy.join("src"))?;
    fs::copy(tidy::root().join("docs/book/book.toml"), copy.join("book.toml"))?;
    for chapter in chapters.iter().map(String::as_str).chain([SUMMARY]) {
        let (text, outside) = with_outside_inside(&text_of(chapter)?);
        fs::write(copy.join("src").join(chapter), text)?;
        for file in outside {
            let to = copy.join("src").join(place_of(&file));
            fs::create_dir_all(to.parent().unwrap_or(&copy))?;
            fs::copy(tidy::root().join(&file), to)
                .map_err(|error| format!("{chapter} links to {file}: {error}"))?;
        }
    }
    let built = Command::new("mdbook")
        .args(["build", "--dest-dir"])
        .arg(std::path::absolute(target.join("book/html"))?)
        .arg(&copy)
        .status();
    match built {
        Ok(status) if status.success() => {
            let wrong = wrong_html(&target.join("book/html"))?;
            if !wrong.is_empty() {
                return Err(format!("the HTML of the book is wrong:\n  {}", wrong.join("\n  ")).into());
            }
            println!("the HTML is at {}", target.join("book/html/index.html").display());
            Ok(())
        }
        Ok(status) => Err(format!("mdbook build: {status}").into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: the book's HTML: install mdBook (`cargo install mdbook`)");
            Ok(())
        }
        Err(error) => Err(format!("mdbook: {error}").into()),
    }
}

/// The place of a file of the tree in the book's copy. Browsers show a file of any kind as text if
/// its name ends in `.txt`. mdBook copies no `.md`, and takes each link with `.md` in it for a link
/// to a chapter. Pictures keep their names.
fn place_of(file: &str) -> String {
    let kind = Path::new(file).extension().and_then(|kind| kind.to_str());
    match kind {
        Some("svg" | "png") => format!("files/{file}"),
        Some("md") => format!("files/{}.txt", file.trim_end_matches(".md")),
        _ => format!("files/{file}.txt"),
    }
}

/// Links of the built pages that lead nowhere. The page for an unknown address is left out, because
/// its links begin at the root of a server.
fn wrong_html(folder: &Path) -> io::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder)? {
        let page = entry?.path();
        let name = page
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.ends_with(".html") || name == "404.html" {
            continue;
        }
        for link in links_of_html(&fs::read_to_string(&page)?) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path)
            };
            let is_there = match heading {
                "" => target.is_file(),
                _ => fs::read_to_string(target).is_ok_and(|text| text.contains(&format!("id=\"{heading}\""))),
            };
            if !is_there {
                wrong.push(format!("{name}: {link} leads nowhere"));
            }
        }
    }
    Ok(wrong)
}

/// The links of a page that stay on the site.
fn links_of_html(page: &str) -> BTreeSet<String> {
    let links = page.split("href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    links
        .filter(|link| !link.contains("://"))
        .map(str::to_owned)
        .collect()
}

/// A chapter whose links to files outside the book lead to [`place_of`] instead, and these files.
fn with_outside_inside(chapter: &str) -> (String, BTreeSet<String>) {
    let mut in_block = false;
    let mut outside = BTreeSet::new();
    let mut text = String::new();
    for line in chapter.lines() {
        if is_fence(line) {
            in_block = !in_block;
        }
        let mut pieces = line.split("](../");
        text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            match piece.split_once(')') {
                Some((link, rest)) if !in_block => {
                    let (path, _) = link.split_once('#').unwrap_or((link, ""));
                    let file = resolve(CHAPTERS, &format!("../{path}"));
                    text.push_str(&format!("]({}){rest}", place_of(&file)));
                    outside.insert(file);
                }
                _ => text.push_str(&format!("](../{piece}")),
            }
        }
        text.push('\n');
    }
    (text, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_outside_the_summary_is_noticed() {
        let chapters = BTreeSet::from(["a.md".to_owned(), "b.md".to_owned()]);
        assert_eq!(wrong_summary(&chapters, "- [A](a.md)\n- [B](b.md)\n"), [""; 0]);
        assert_eq!(
            wrong_summary(&chapters, "- [A](a.md)\n- [A](a.md)\n"),
            [
                "docs/book/src/SUMMARY.md: lists a.md 2 times",
                "docs/book/src/SUMMARY.md: lists b.md 0 times",
            ]
        );
        assert_eq!(wrong_summary(&BTreeSet::new(), "").len(), 1);
    }

    #[test]
    fn links_out_of_the_book_lead_to_copies() {
        let chapter = "[a](b.md#c), [d](../../e.md#f) and [g](../../../ui-tests/h.rs).\n\
                       ![i](../../i.svg)\n```text\n[j](../../k)\n```\n";
        let (text, outside) = with_outside_inside(chapter);
        assert_eq!(
            text,
            "[a](b.md#c), [d](files/docs/e.txt) and [g](files/ui-tests/h.rs.txt).\n\
             ![i](files/docs/i.svg)\n```text\n[j](../../k)\n```\n"
        );
        let expected = ["docs/e.md", "docs/i.svg", "ui-tests/h.rs"].map(str::to_owned);
        assert_eq!(outside, expected.into());
    }

    #[test]
    fn links_of_pages_are_followed_to_their_headings() {
        let folder = std::env::temp_dir().join(format!("xtask-book-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = "<h2 id=\"there\"></h2><a href=\"#there\"><a href=\"b.txt\"><a href=\"https://e.org/x\">\
                    <a href=\"none.html\"><a href=\"a.html#none\">";
        fs::write(folder.join("a.html"), page).unwrap();
        fs::write(folder.join("b.txt"), "").unwrap();
        let wrong = wrong_html(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            wrong.unwrap(),
            [
                "a.html: a.html#none leads nowhere",
                "a.html: none.html leads nowhere"
            ]
        );
    }
}
