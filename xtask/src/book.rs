//! `cargo xtask book`: checks the book in `docs/book`, and builds its HTML if mdBook is installed.
//!
//! Each chapter is in the summary, each link leads somewhere, the programs run, and the quoted
//! blocks are excerpts of their files. Programs in other languages are compiled if their compilers
//! are installed. The HTML is at `book/html` under the target directory. The
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

/// The folder of the programs in other languages, from the root of the tree.
const PROGRAMS: &str = "docs/book/programs";

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
    let out = target().join("book");
    fs::create_dir_all(&out)?;
    python(&out)?;
    cuda_cpp(&out)?;
    html(&chapters)
}

/// The folder of build results.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tidy::root().join("target"), PathBuf::from)
}

/// The files in [`PROGRAMS`] whose names end in `.ending`.
fn programs(ending: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tidy::root().join(PROGRAMS))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    match found.is_empty() {
        true => Err(format!("{PROGRAMS} has no program in .{ending}").into()),
        false => Ok(found),
    }
}

/// Runs `command`, and returns its words on standard error if it fails.
fn words_of_failure(command: &mut Command) -> io::Result<Option<String>> {
    let output = command.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(words))
}

/// Compiles the programs in Python, and does not run them.
fn python(out: &Path) -> Result<(), Box<dyn Error>> {
    for program in programs("py")? {
        let compile = "import sys, py_compile; py_compile.compile(sys.argv[1], sys.argv[2], doraise=True)";
        let mut python = Command::new("python3");
        python
            .args(["-c", compile])
            .arg(&program)
            .arg(out.join("program.pyc"));
        match words_of_failure(&mut python) {
            Ok(None) => println!("ok: python3 compiles {}", program.display()),
            Ok(Some(words)) => return Err(format!("{}:\n{words}", program.display()).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                println!("SKIPPED: the book's program for PyTorch: install python3");
            }
            Err(error) => return Err(format!("python3: {error}").into()),
        }
    }
    Ok(())
}

/// Compiles the programs in CUDA C++ with nvcc, and does not run them. NVIDIA publishes nvcc with
/// `ptxas`, so it is also looked for beside the program that the variable `PTXAS` names.
fn cuda_cpp(out: &Path) -> Result<(), Box<dyn Error>> {
    let beside = std::env::var_os("PTXAS").map(|ptxas| Path::new(&ptxas).with_file_name("nvcc"));
    let nvcc = beside
        .filter(|nvcc| nvcc.is_file())
        .unwrap_or_else(|| "nvcc".into());
    let compile = |source: &Path| {
        let mut nvcc = Command::new(&nvcc);
        nvcc.args(["-c", "-o"]).arg(out.join("program.o")).arg(source);
        words_of_failure(&mut nvcc)
    };
    // nvcc needs a compiler for C++, and CUDA's headers.
    let simplest = out.join("simplest.cu");
    fs::write(&simplest, "#include <cuda_runtime.h>\n")?;
    let skipped = match compile(&simplest) {
        Ok(None) => None,
        Ok(Some(words)) => Some(words),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("it is not installed".to_owned()),
        Err(error) => return Err(format!("{}: {error}", nvcc.display()).into()),
    };
    if let Some(why) = skipped {
        let why = why.trim().lines().next().unwrap_or_default();
        println!("SKIPPED: the book's program in CUDA C++ needs a CUDA toolkit's nvcc: {why}");
        return Ok(());
    }
    for program in programs("cu")? {
        if let Some(words) = compile(&program)? {
            return Err(format!("{}:\n{words}", program.display()).into());
        }
        println!("ok: nvcc compiles {}", program.display());
    }
    Ok(())
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
    let target = target();
    let copy = target.join("book/source");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    fs::create_dir_all(copy.join("src"))?;
    for file in ["book.toml", "book.css"] {
        fs::copy(tidy::root().join("docs/book").join(file), copy.join(file))?;
    }
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
