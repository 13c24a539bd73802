//! The book shows what is there: blocks that it quotes are excerpts of the files that it names, and
//! all other Rust blocks are doctests. Text without a file is a drawing. `install.rs` checks the
//! commands and the manifest of the first chapter, and `timeline.rs` its chart.
//!
//! A quoted block follows a line `<!-- from PATH -->`, with the path from the repository's root. A
//! line `…` or `// …` stands for lines that are left out. The lines between two of these stand
//! in the file one after another.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of a chapter.
#[derive(Debug)]
struct Block {
    /// The chapter's file and the line of the fence.
    place: String,
    /// The text behind the fence, for example `rust`.
    info: String,
    /// The file that the block quotes.
    from: Option<String>,
    lines: Vec<String>,
}

fn book() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn root() -> PathBuf {
    book().join("../..")
}

/// The files of the chapters, and the summary.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(book().join("src")).expect("the book has chapters");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it is readable").path())
        .collect();
    files.sort();
    files
}

fn name(file: &Path) -> &str {
    file.file_name()
        .and_then(|name| name.to_str())
        .expect("a name of text")
}

/// The path in a line `<!-- from PATH -->`.
fn marker(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- from ")?.strip_suffix(" -->")
}

/// The blocks of a chapter, or the markers that no block follows.
fn blocks(file: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut from: Option<String> = None;
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{file}:{number}");
        if let Some(mut block) = open.take() {
            if line == "```" {
                blocks.push(block);
            } else {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
        } else if let Some(info) = line.strip_prefix("```") {
            open = Some(Block {
                place,
                info: info.to_owned(),
                from: from.take(),
                lines: Vec::new(),
            });
        } else if let Some(path) = from {
            return Err(format!("{place}: no block follows the marker of {path}"));
        } else {
            from = marker(line).map(str::to_owned);
        }
    }
    match (open, from) {
        (None, None) => Ok(blocks),
        (Some(block), _) => Err(format!("{}: the block does not end", block.place)),
        (_, Some(path)) => Err(format!("{file}: no block follows the marker of {path}")),
    }
}

/// Whether a block must be an excerpt: rustdoc does not run it, no other test reads it, and it is
/// no drawing; or it claims to be a message of rustc. Programs of cudarc need a GPU, so that
/// rustdoc only compiles them.
fn must_be_quoted(block: &Block) -> bool {
    let is_message = |line: &String| line.starts_with("error[") || line.starts_with("error: ");
    let is_cudarc = |line: &String| line.starts_with("use cudarc::");
    let is_drawn = |line: &String| line.contains(['─', '│', '█']);
    let is_checked = match &*block.info {
        "rust" => true,
        "rust,no_run" => block.lines.iter().any(is_cudarc),
        "text" => block.lines.iter().any(is_drawn),
        "console" => block.place.starts_with("ten-minutes.md:"),
        "toml" => ["ten-minutes.md:", "reference.md:", "how-to.md:"]
            .iter()
            .any(|at| block.place.starts_with(at)),
        _ => false,
    };
    !is_checked || block.lines.iter().any(is_message)
}

/// The first run of shown lines that does not stand in the file behind the run before it.
fn first_that_differs<'a>(shown: &'a [String], file: &str) -> Option<&'a [String]> {
    let file: Vec<&str> = file.lines().map(str::trim).collect();
    let mut begin = 0;
    let runs = shown.split(|line| matches!(line.trim(), "…" | "// …"));
    for run in runs.filter(|run| !run.is_empty()) {
        let wanted: Vec<&str> = run.iter().map(|line| line.trim()).collect();
        let found = file[begin..]
            .windows(wanted.len())
            .position(|lines| lines == wanted);
        match found {
            Some(at) => begin += at + wanted.len(),
            None => return Some(run),
        }
    }
    None
}

#[test]
fn quoted_blocks_are_excerpts_of_their_files() {
    let mut quoted = 0;
    for file in files() {
        let text = fs::read_to_string(&file).expect("the chapter is readable");
        for block in blocks(name(&file), &text).unwrap_or_else(|why| panic!("{why}")) {
            let Some(path) = &block.from else {
                assert!(
                    !must_be_quoted(&block),
                    "{}: rustdoc does not run this block, and no line `<!-- from PATH -->` says which \
                     file it quotes",
                    block.place
                );
                continue;
            };
            let source = fs::read_to_string(root().join(path))
                .unwrap_or_else(|error| panic!("{}: {path}: {error}", block.place));
            let differs = first_that_differs(&block.lines, &source);
            assert_eq!(
                differs, None,
                "{}: {path} has not these lines, or not in this order",
                block.place
            );
            assert!(!block.lines.is_empty(), "{}: an empty excerpt", block.place);
            quoted += 1;
        }
    }
    assert!(quoted > 0, "no chapter quotes a refused program");
}

#[test]
fn a_refused_program_stands_beside_its_message() {
    for file in files() {
        let text = fs::read_to_string(&file).expect("the chapter is readable");
        let blocks = blocks(name(&file), &text).unwrap_or_else(|why| panic!("{why}"));
        let from = |at: usize| blocks.get(at).and_then(|block: &Block| block.from.as_deref());
        for (at, block) in blocks.iter().enumerate() {
            let Some(program) = from(at).and_then(|path| path.strip_suffix(".rs")) else {
                continue;
            };
            let message = format!("{program}.stderr");
            if root().join(&message).is_file() {
                let next = from(at + 1);
                assert_eq!(next, Some(&*message), "{}: without its message", block.place);
            }
        }
    }
}

/// The title of each section of pitfalls, its hazard, and the code of rustc's message. An error
/// of a macro has no code.
fn pitfalls(text: &str) -> Vec<[String; 3]> {
    let sections = text.split("\n### ").skip(1);
    sections
        .map(|section| {
            let title = section.lines().next().unwrap_or_default();
            let case = section.split("ui-tests/cases/").nth(1).unwrap_or_default();
            let message = section.split("\nerror").nth(1).unwrap_or_default();
            let code = message.strip_prefix('[').and_then(|rest| rest.split(']').next());
            [
                title,
                &case[..case.len().min(3)].to_uppercase(),
                code.unwrap_or("`#[kernel]`"),
            ]
            .map(str::to_owned)
        })
        .collect()
}

/// The rows of the table at the begin of the pitfalls, in the same form.
fn rows_of_pitfalls(text: &str) -> Vec<[String; 3]> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [number, link, hazard, code] = cells[..] else {
            return None;
        };
        let title = link.strip_prefix('[')?.split("](").next()?;
        Some([format!("{number}. {title}"), hazard.to_owned(), code.to_owned()])
    })
    .collect()
}

#[test]
fn the_table_of_pitfalls_lists_each_section_with_its_hazard_and_code() {
    let text = include_str!("../src/pitfalls.md");
    let sections = pitfalls(text);
    assert_eq!(rows_of_pitfalls(text), sections);
    assert!(sections.len() >= 19, "only {} pitfalls", sections.len());
}

#[test]
fn each_chapter_has_doctests_and_a_line_in_the_summary() {
    let modules = include_str!("../lib.rs");
    let summary = include_str!("../src/SUMMARY.md");
    for file in files() {
        let name = name(&file);
        if name == "SUMMARY.md" {
            continue;
        }
        assert!(
            modules.contains(&format!("= \"{name}\";")),
            "lib.rs has no module of {name}"
        );
        assert!(
            summary.contains(&format!("]({name})")),
            "SUMMARY.md has no {name}"
        );
    }
}

#[test]
fn a_changed_line_and_a_changed_order_are_noticed() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let file = "let a = 1;\n    let b = 2;\nlet c = 3;\n";
    let differs = |shown: &str| first_that_differs(&lines(shown), file).is_some();
    assert!(!differs("let a = 1;\nlet b = 2;"));
    assert!(!differs("// …\nlet a = 1;\n// …\nlet c = 3;"));
    assert!(differs("let a = 1;\nlet c = 3;"), "a line is left out silently");
    assert!(differs("let a = 2;"));
    assert!(differs("let c = 3;\n…\nlet a = 1;"));
}

#[test]
fn a_block_that_rustdoc_skips_must_be_quoted() {
    let must_in = |file: &str, info: &str, line: &str| {
        let found = blocks(file, &format!("```{info}\n{line}\n```\n")).expect("the block ends");
        must_be_quoted(&found[0])
    };
    let must = |info: &str, line: &str| must_in("a.md", info, line);
    assert!(!must("rust", "fn main() {}"));
    assert!(!must_in("ten-minutes.md", "console", "$ ls") && must("console", "$ ls"));
    assert!(!must("text", "a ──▶ b") && must("text", "a is 5"));
    assert!(must("cpp", "int main() {}") && must("", "plain"));
    assert!(!must("rust,no_run", "use cudarc::driver::CudaContext;"));
    for info in ["rust,ignore", "rust,no_run", "rust,compile_fail", "rust ignore"] {
        assert!(must(info, "fn main() {}"), "{info}");
    }
    assert!(must("text", "error[E0277]: no"));
    assert!(blocks("a.md", "<!-- from a.rs -->\n\n```text\n```\n").is_err());
    assert!(blocks("a.md", "```rust\n").is_err());
}
